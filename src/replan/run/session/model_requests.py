"""The requests of one model call: each is allowed before it is made, and counted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from replan.core.events import LlmCallStarted, ProgressUpdate
from replan.core.limits.budget import exceeded, in_flight, limit_reached
from replan.core.limits.prices import total
from replan.core.types import Usage
from replan.ports import Model, ModelRequest, Priced
from replan.run.session.context import Run
from replan.run.session.stops import BudgetReached

_CHARACTERS = 4
"""Of a token, in logs that do not tell tokens."""
_OFTEN = 16
"""Tokens of an answer between two looks at the limits."""
_SURE = 0.9
"""Of an estimate: an answer that fits is not broken off because its tokens are short."""


class Asking:
    """`ports.Watcher` of one call."""

    def __init__(self, run: Run, model: Model, request: ModelRequest) -> None:
        self._run = run
        self._price = model.price() if isinstance(model, Priced) else None
        self.asked = self._priced(Usage(input_tokens=request.tokens))
        self.more = Usage()
        """What requests before the last one have used."""
        self.because = ""
        self._sent = 0
        budget = run.state.policy.budget
        self._bounded = budget.max_tokens is not None or budget.max_cost_usd is not None
        self._call_id = ""
        self._came = self._looked = 0
        """Tokens of the answer under way that have come, by estimate: now, and when that was last held against the limits."""

    def allow(self) -> None:
        """Raise `BudgetReached` if a limit forbids one more request of this size."""
        used = self._used_by_calls(self._run.state.llm_running)
        if limit := limit_reached(self._run.state.policy.budget, used, what="llm", asked=self.asked):
            raise BudgetReached(limit)

    @contextmanager
    def under_way(self, call_id: str) -> Iterator[None]:
        """`with`: the call is under way, and what it uses counts for those beside it, until it is recorded.

        What one that is cut off has used is kept under its id, for whoever closes it.
        """
        run, self._call_id = self._run, call_id
        run.asking[self] = self.more
        try:
            yield
        except asyncio.CancelledError:
            run.asking[call_id] = self._with_what_came()
            raise
        finally:
            run.asking.pop(self, None)

    def sending(self, because: str = "") -> None:
        """The first request was allowed with the call."""
        self._sent += 1
        if self._sent > 1:
            self._use(self._with_what_came())
            self.because = because or self.because
            self.allow()
            self._use(self.more.model_copy(update={"llm_calls": self.more.llm_calls + 1}))

    def room(self) -> int | None:
        """What is left when this request is paid for, in tokens of its answer."""
        if not self._bounded:
            return None
        budget, used, price = self._run.state.policy.budget, self._used_with_this(0), self._price
        rooms: list[float] = []
        if budget.max_tokens is not None:
            rooms.append(budget.max_tokens - used.input_tokens - used.output_tokens)
        if budget.max_cost_usd is not None and price is not None and price.output > 0:
            rooms.append((budget.max_cost_usd - used.cost_usd) * 1_000_000 / price.output)
        return max(1, int(min(rooms))) if rooms else None  # where nobody knows the price of an answer

    def came(self, tokens: int) -> None:
        """Raise `BudgetReached` where the answer is surely more than what is left."""
        self._came = tokens
        if self._bounded and tokens >= self._looked + _OFTEN:
            self._looked = tokens
            self._note()
            if limit := exceeded(self._run.state.policy.budget, self._used_with_this(int(tokens * _SURE))):
                raise BudgetReached(limit)

    def time_left(self) -> float:
        """Of the task's own time."""
        deadline = self._run.deadline
        return math.inf if deadline is None else deadline - asyncio.get_running_loop().time()

    def used(self, usage: Usage) -> None:
        """What was used for nothing; the request itself is counted when the next one goes out."""
        self._use(total((self.more, usage.model_copy(update={"llm_calls": 0}))))

    def _use(self, more: Usage) -> None:
        self.more, self._came, self._looked = more, 0, 0
        self._note()

    def _note(self) -> None:
        if self in self._run.asking:
            self._run.asking[self] = total((self.more, self._priced(Usage(output_tokens=self._came))))

    def _used_with_this(self, tokens: int) -> Usage:
        """What is used, with this request at its own price and so many tokens of its answer."""
        run = self._run
        others = {name: call for name, call in run.state.llm_running.items() if name != self._call_id}
        used = self._used_by_calls(others, besides=self)
        return total((used, self.more, self.asked, self._priced(Usage(output_tokens=tokens))))

    def _used_by_calls(self, running: Mapping[str, LlmCallStarted], besides: Asking | None = None) -> Usage:
        run = self._run
        more = total(usage for one, usage in run.asking.items() if one is not besides)
        return in_flight(run.state.usage, [_size(call) for call in running.values()], more)

    def _with_what_came(self) -> Usage:
        """`more`, with the request whose answer has begun and not come whole."""
        if not self._came:
            return self.more
        return total((self.more, self.asked, self._priced(Usage(output_tokens=self._came))))

    def _priced(self, usage: Usage) -> Usage:
        return usage if self._price is None else usage.model_copy(update={"cost_usd": self._price.of(usage)})

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

    def in_vain(self) -> Usage:
        """What a call has used that was not answered."""
        return total((Usage(llm_calls=1), self._with_what_came()))


def _size(call: LlmCallStarted) -> int:
    return len(call.text) // _CHARACTERS if call.tokens is None else call.tokens
