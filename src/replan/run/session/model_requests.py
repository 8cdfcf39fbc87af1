"""The requests of one model call: each is allowed before it is made, and counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from replan.core.events import LlmCallStarted, ProgressUpdate
from replan.core.limits.budget import in_flight, limit_reached
from replan.core.limits.prices import total
from replan.core.types import Usage
from replan.ports import Model, ModelRequest, Priced
from replan.run.session.context import Run
from replan.run.session.stops import BudgetReached

_CHARACTERS = 4
"""Of a token, in logs that do not tell tokens."""


class Asking:
    """`ports.Watcher` of one call."""

    def __init__(self, run: Run, model: Model, request: ModelRequest) -> None:
        self._run = run
        price = model.price() if isinstance(model, Priced) else None
        size = Usage(input_tokens=request.tokens)
        self.asked = size if price is None else size.model_copy(update={"cost_usd": price.of(size)})
        self.more = Usage()
        """What requests before the last one have used."""
        self.because = ""
        self._sent = 0

    def allow(self) -> None:
        """Raise `BudgetReached` if a limit forbids one more request of this size."""
        run = self._run
        running = [_size(call) for call in run.state.llm_running.values()]
        more = total(run.asking.values())
        used = in_flight(run.state.usage, running, more)
        if limit := limit_reached(run.state.policy.budget, used, what="llm", asked=self.asked):
            raise BudgetReached(limit)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """`with`: the call is under way, and what it uses counts for those beside it, until it is recorded."""
        self._run.asking[self] = self.more
        try:
            yield
        finally:
            self._run.asking.pop(self, None)

    def sending(self, because: str = "") -> None:
        """The first request was allowed with the call."""
        self._sent += 1
        if self._sent > 1:
            self.because = because or self.because
            self.allow()
            self._use(self.more.model_copy(update={"llm_calls": self.more.llm_calls + 1}))

    def used(self, usage: Usage) -> None:
        """What was used for nothing; the request itself is counted when the next one goes out."""
        self._use(total((self.more, usage.model_copy(update={"llm_calls": 0}))))

    def _use(self, more: Usage) -> None:
        self.more = more
        if self in self._run.asking:
            self._run.asking[self] = more

    def tell(self, message: str, *, once: bool = False) -> None:
        """Say it to whoever watches."""
        run = self._run
        if once:
            if run.told is None:
                run.told = set()
            if message in run.told:
                return
            run.told.add(message)
        run.tell(ProgressUpdate(message=message))

    def with_all(self, usage: Usage) -> Usage:
        """What the call has used, with the requests before the one that was answered."""
        return total((usage.model_copy(update={"llm_calls": 1}), self.more))


def _size(call: LlmCallStarted) -> int:
    return len(call.text) // _CHARACTERS if call.tokens is None else call.tokens
