"""An answer on its way: how many requests it takes, how much of it has come, and whether that is too much.

What a model says is paid for while it is said. So it is counted as it comes, by estimate, and read no further once the task
has nothing left for it, or once it is more than any answer has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from secrets import token_hex
from typing import Any

from replan.core.data.pieces import ANSWER_AT_ONCE
from replan.core.limits.prices import BYTES_OF_TOKEN
from replan.llm.faults import Endless
from replan.ports import Watcher

MOST_TOKENS = 200_000
"""Of one answer, with its thoughts, by estimate: half as much again as the largest models say at once."""


class Coming:
    """One way of asking, from its first request to the end of its answer."""

    def __init__(self, watcher: Watcher | None) -> None:
        self._watcher = watcher
        self._requests = 0
        self._bytes = self._wordless = 0
        self._before = ""
        self._held: dict[str, str] = {}
        self.without_reason = False
        """The end has come, and no word of why."""
        self.forbidden: Exception | None = None
        """What whoever asks has raised, whatever libraries make of it."""

    @property
    def tokens(self) -> int:
        """About how many have come. A piece without a word counts for one: it may stand for a thought that is not shown."""
        return self._wordless + self._bytes // BYTES_OF_TOKEN

    def request(self, because: str = "") -> None:
        """A request goes out. The first was told before; each further one is a redirect that is followed."""
        self._requests += 1
        if self._requests > 1:
            self._tell(lambda watcher: watcher.sending(because))

    def said(self, text: str) -> None:
        """A piece of an answer has come."""
        news = text[len(self._before) :] if self._is_longer(text) else text
        self._before = text
        self._bytes += len(news.encode("utf-8", "replace"))
        self._wordless += not news
        self._tell(lambda watcher: watcher.came(self.tokens))
        if self.tokens > MOST_TOKENS:
            raise Endless(f"its answer has no end: it is read no further after about {self.tokens:,} tokens")

    def hold(self, text: str) -> str:
        """Keep a large text from libraries, which go through it in the event loop; what stands for it there."""
        if len(text) <= ANSWER_AT_ONCE:
            return text
        mark = f"held back: {token_hex(16)}"
        self._held[mark] = text
        return mark

    def whole(self, text: str) -> str:
        """The text that a mark stands for; any other as it is."""
        return self._held.get(text.strip(), text)

    def done(self) -> None:
        """Whoever asked is told nothing more, and is let go."""
        self._watcher = None
        self._held = {}
        self.forbidden = None

    def _is_longer(self, text: str) -> bool:
        """True if the piece says again all that the one before has said: some servers send the whole each time."""
        return bool(self._before) and len(text) > len(self._before) and text.startswith(self._before)

    def _tell(self, what: Callable[[Watcher], None]) -> None:
        if self._watcher is None:
            return
        try:
            what(self._watcher)
        except Exception as error:
            self.forbidden = error
            raise


_COMING: ContextVar[Coming | None] = ContextVar("coming", default=None)


def of_now() -> Coming | None:
    """The answer that is asked for here, if any is: known to the transport, which sees what libraries keep to themselves."""
    return _COMING.get()


@contextmanager
def asked_for(watcher: Watcher | None) -> Iterator[Coming]:
    """`with`: the requests that are made inside are for this one answer."""
    coming = Coming(watcher)
    token = _COMING.set(coming)
    try:
        yield coming
    finally:
        _COMING.reset(token)
        coming.done()  # connections that live on have a copy of this context


def words_of(choices: Any) -> str:
    """What a piece of a stream says, in words, thoughts and calls; what stands in it twice, once."""
    found: dict[str, None] = {}
    waiting = list(reversed(choices)) if isinstance(choices, list) else []
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found[one] = None
        elif isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, dict):
            waiting += [part for name, part in reversed(one.items()) if name not in _NO_WORDS]
    return "".join(found)


_NO_WORDS = frozenset(
    {"role", "id", "type", "index", "name", "format", "finish_reason", "logprobs", "stop_reason"}
)
