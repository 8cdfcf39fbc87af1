"""The ladder of ways to ask an endpoint: climbed down until an answer can be used, and what worked is remembered.

Which rung comes next may be guessed from the words of a refusal, since that saves requests; a refusal without such
words is answered by the plainest request of the same mode, then by the weaker modes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from replan.core.data.answers import Form
from replan.llm.faults import EndpointError

Mode = Literal["native", "tool", "prompted"]
MODES: tuple[Mode, ...] = ("native", "tool", "prompted")
"""Ways to get structured answers, strongest first: a JSON schema, a tool call, words."""

_ABOUT_MODE: dict[Mode, re.Pattern[str]] = {
    "native": re.compile(r"response_?format|json.?schema|structured|grammar|schema|guided", re.IGNORECASE),
    "tool": re.compile(r"tool|function|schema|grammar", re.IGNORECASE),
    "prompted": re.compile(r"(?!)"),
}
_ABOUT_THIS_SCHEMA = re.compile(
    r"(invalid|unsupported|failed|error)[^.]{0,60}(schema|grammar)", re.IGNORECASE
)
_ABOUT_SAMPLING = re.compile(r"temperature|top_p", re.IGNORECASE)
_ABOUT_LENGTH = re.compile(
    r"max_?(?:completion_|output_|new_)?tokens|(?:completion|output) tokens|in the completion", re.IGNORECASE
)
_ABOUT_STREAMING = re.compile(r"stream", re.IGNORECASE)
_ABOUT_SYSTEM = re.compile(r"\bsystem\b|developer (?:role|message|instruction)|roles? must", re.IGNORECASE)

_REFUSING = frozenset({400, 415, 422, 501})
"""May be meant for any part of the request."""
_REFUSING_IN_WORDS = frozenset({404, 405, 500})
"""Mean something else, unless they name a part of the request."""
_TOO_MUCH = frozenset({402, 413})
"""Some count what an answer may take at most, and not what it takes: whoever cannot pay for that, or may not ask it in a minute, is refused."""
_TOO_MUCH_IN_WORDS = frozenset({403, 429})
"""The same where they name it."""
_LOST_STREAMS = 2
"""Connections lost in the middle of a stream, with a whole answer afterwards, until streams are left alone."""


class Way(NamedTuple):
    """One way to ask."""

    mode: Mode = "native"
    streamed: bool = True
    sampled: bool = True
    """`temperature` and `top_p` are sent."""
    system: bool = True
    """The instructions are a message of the system; else the head of the user's."""
    bounded: bool = True
    """What the task has left for the answer is sent as its `max_tokens`."""

    @property
    def weaker(self) -> Mode | None:
        position = MODES.index(self.mode) + 1
        return MODES[position] if position < len(MODES) else None

    def below(self) -> list[Way]:
        """The ways to try where the answers of this one cannot be used: all at once, then each weaker mode."""
        modes = MODES[MODES.index(self.mode) + 1 :]
        whole = self._replace(streamed=False)
        return [*([whole] if self.streamed else []), *(whole._replace(mode=mode) for mode in modes)]

    @property
    def plain(self) -> Way:
        """The same mode without anything that could be left out."""
        return Way(self.mode, streamed=False, sampled=False, system=False, bounded=False)


class Ladder:
    """What is known of one model at one endpoint, for as long as its adapter lives."""

    def __init__(self, mode: Mode = "native", *, streaming: bool = True) -> None:
        self.way = Way(mode, streaming)
        self.by_schema: dict[str, Way] = {}
        self.stumbles: dict[str, int] = {}
        """Answers of status 500 in a row: some servers fail while they compile a schema."""
        self.instead: dict[str, Way] = {}
        """What worked after such answers."""
        self.lost_streams = 0

    def climb(
        self,
        schema_name: str,
        fields: Sequence[str],
        *,
        streamed: bool,
        bounded: bool = True,
        unread: int = 0,
    ) -> Climb:
        """One question's way down, from where the last one like it has found its answer.

        `bounded`: a limit is set that an answer could be told.
        `unread`: so many ways have brought answers that could not be used, though the endpoint took them for such.
        """
        own = self.by_schema.get(schema_name, self.way)
        mode = max(own.mode, self.way.mode, key=MODES.index)
        # The same once more may be enough; each further try is made in the next mode.
        position = MODES.index(mode) + max(0, self.stumbles.get(schema_name, 0) - 1)
        mode = MODES[min(position, len(MODES) - 1)]
        first = own._replace(mode=mode, streamed=own.streamed and streamed, bounded=own.bounded and bounded)
        return Climb(self, schema_name, fields, first, unread)


class Climb:
    """The way down of one question. Each method says whether there is another way to try: `way`."""

    def __init__(
        self, ladder: Ladder, schema_name: str, fields: Sequence[str], first: Way, unread: int = 0
    ) -> None:
        self._ladder = ladder
        self._schema = schema_name
        self._fields = fields
        self._first = first
        below = first.below()[:unread]
        self.way = below[-1] if below else first
        self._tried = {first, *below}
        self._unread = bool(below)
        """The endpoint takes what it says for an answer; whoever reads it knows better."""
        self._guessed = False
        """Things were left out that nobody complained of."""
        self._only_this = False
        self._lost = False

    @property
    def again(self) -> bool:
        """Whether more than one way was tried."""
        return len(self._tried) > 1

    @property
    def other_ways(self) -> bool:
        """Whether there is one below that was not tried."""
        return any(way not in self._tried for way in self.way.below())

    def could_be_read(self) -> None:
        """The answer has the form that was asked for: the next question like this one begins here."""
        if self._unread:
            ladder = self._ladder
            if self.way.mode == self._first.mode:  # it was how the pieces came, whatever is asked
                ladder.way = ladder.way._replace(streamed=False)
            ladder.by_schema[self._schema] = self._learnt()

    def failed(self, error: EndpointError) -> bool:
        """The request came to nothing."""
        if error.in_stream and self.way.streamed:
            self._lost = self._lost or error.lost
            return self._take(self.way._replace(streamed=False))
        if error.status is None or error.code == "context_length_exceeded":
            return False
        said = str(error.__cause__ or error)
        for way in self._named(error.status, said):
            if self._take(way):
                self._only_this = self._only_this or (
                    way.mode != self._first.mode and _ABOUT_THIS_SCHEMA.search(said) is not None
                )
                return True
        if error.status == 500:
            return self._stumbled()
        if error.status not in _REFUSING:
            return False
        self._guessed = True
        return any(self._take(way) for way in self._plainer())

    def answered(self, text: str, form: Form, *, cut: bool) -> bool:
        """An answer came. `cut`: the endpoint says that it is incomplete or withheld, which no other way mends."""
        if form == "good":
            self._remember()
            return False
        if cut or form == "broken":
            return False
        if not text.strip() and self._take(self.way._replace(streamed=False)):
            return True
        # Who answers a request for JSON in prose has not seen the schema.
        weaker = "prompted" if text.strip() and "{" not in text else self.way.weaker
        if weaker is not None and self._take(self.way._replace(mode=weaker)):
            return True
        self._ladder.by_schema[self._schema] = self._learnt()
        return False

    def _take(self, way: Way) -> bool:
        if way in self._tried:
            return False
        self._tried.add(way)
        self.way = way
        return True

    def _named(self, status: int, said: str) -> Iterator[Way]:
        """The ways without what the refusal names."""
        way = self.way
        counted = status in _TOO_MUCH or (status in _TOO_MUCH_IN_WORDS and _ABOUT_LENGTH.search(said))
        if way.bounded and counted:
            yield way._replace(bounded=False)
        if status not in _REFUSING and status not in _REFUSING_IN_WORDS:
            return
        if way.bounded and _ABOUT_LENGTH.search(said):
            yield way._replace(bounded=False)
        if way.streamed and _ABOUT_STREAMING.search(said):
            yield way._replace(streamed=False)
        if way.sampled and status != 500 and _ABOUT_SAMPLING.search(said):
            yield way._replace(sampled=False)
        if way.weaker is not None and _ABOUT_MODE[way.mode].search(said):
            yield way._replace(mode=way.weaker)
        if way.system and status != 500 and _ABOUT_SYSTEM.search(said):
            yield way._replace(system=False)

    def _plainer(self) -> Iterator[Way]:
        if self.way.bounded:
            yield self.way._replace(bounded=False)
            return  # nobody has complained of it yet: if that was not it, the refusal comes again
        yield self.way.plain
        if (weaker := self.way.weaker) is not None:
            yield self.way.plain._replace(mode=weaker)

    def _stumbled(self) -> bool:
        known = self._ladder.instead.get(self._schema)
        if known is not None and self._take(self.way._replace(mode=known.mode)):
            return True
        self._ladder.stumbles[self._schema] = self._ladder.stumbles.get(self._schema, 0) + 1
        return False

    def _learnt(self) -> Way:
        """What to begin with next time: after a guess only the mode is known to matter, unless it was no matter."""
        way = self.way
        if self._guessed and way.mode != self._first.mode:
            way = self._first._replace(mode=way.mode)
        if not self._first.streamed or (self._lost and self._ladder.lost_streams < _LOST_STREAMS):
            way = way._replace(streamed=self._ladder.way.streamed)
        if not self._first.bounded:
            way = way._replace(bounded=self._ladder.way.bounded)
        return way

    def _remember(self) -> None:
        if self._unread:
            return  # `could_be_read` says what worked
        ladder = self._ladder
        if self._lost and not self.way.streamed:
            ladder.lost_streams += 1
        stumbles = ladder.stumbles.pop(self._schema, 0)
        if stumbles > 1 or (self._schema in ladder.instead and self.way.mode != self._first.mode):
            ladder.instead[self._schema] = self.way
            return
        ladder.instead.pop(self._schema, None)
        if self._only_this or self._schema in ladder.by_schema:
            ladder.by_schema[self._schema] = self._learnt()
        elif self.again:
            ladder.way = self._learnt()
