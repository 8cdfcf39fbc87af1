"""Models: what they are asked, what they answer, and who is told on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import Field

from replan.core.limits.prices import Price as Price
from replan.core.limits.prices import tokens_in
from replan.core.types import Frozen, JsonObject, Role, Usage


class Turn(Frozen):
    """One message of a conversation with a model."""

    role: Literal["user", "assistant"]
    text: str


class Watcher(Protocol):
    """Whoever asks a model, told of what happens on the way to the answer."""

    def sending(self, because: str = "") -> None:
        """A request goes out now, `because` the one before came to nothing. Raises what forbids it."""
        ...

    def room(self) -> int | None:
        """About how many tokens the answer to the request under way may have by the limits; None where none is set."""
        ...

    def came(self, tokens: int) -> None:
        """So many tokens of that answer have come, by estimate. Raises what forbids more."""
        ...

    def time_left(self) -> float:
        """Seconds until whoever asks has no time any more; infinite where nothing limits it."""
        ...

    def used(self, usage: Usage) -> None:
        """What a request has used whose answer is no answer."""
        ...

    def tell(self, message: str, *, once: bool = False) -> None:
        """A sentence for people; `once`: not again in this task."""
        ...


class ModelRequest(Frozen):
    """One structured question. `schema_name` is the contract name of the answer (see the specification, §13)."""

    role: Role
    schema_name: str
    json_schema: JsonObject
    instructions: str
    turns: tuple[Turn, ...]
    temperature: float | None = None
    timeout_secs: float | None = None
    max_tokens: int | None = None
    watcher: Any = Field(default=None, exclude=True, repr=False)
    """A `Watcher`, or None. A model that makes several requests for one answer tells it of each."""

    unread: int = Field(default=0, exclude=True, repr=False)
    """So many ways of asking this have brought nothing that has the form of an answer. No part of the request."""

    @property
    def tokens(self) -> int:
        """About how many tokens are asked."""
        return tokens_in(
            (
                self.instructions,
                json.dumps(self.json_schema, default=str),
                *(turn.text for turn in self.turns),
            )
        )

    hide: Callable[[str], str] | None = Field(default=None, exclude=True, repr=False)
    """Takes the secrets out of a text that is to be written down: the answer, an error. No part of the request."""


class ModelReply(Frozen):
    """A model's answer as it came: text that should be JSON, and what it cost."""

    text: str
    model: str = ""
    usage: Usage = Usage()
    endpoint: str = ""
    """Which of several models or endpoints answered, where there are several."""
    other_ways: bool = Field(default=False, exclude_if=lambda value: not value, repr=False)
    """The same may be asked in another way, should this not have the form of an answer (`ModelRequest.unread`)."""
    cut: bool = Field(default=False, exclude_if=lambda value: not value)
    """It stopped at a limit of tokens before it was whole: what is missing may be what counts, so nothing of it is believed."""
    read_in_part: bool = Field(default=False, exclude_if=lambda value: not value)
    """By its count of tokens the endpoint has read a part of the prompt only: somebody else who can be asked is to be believed before it."""
    could_be_read: Callable[[], None] | None = Field(default=None, exclude=True, repr=False)
    """Told by whoever has read the answer that it had the form of one."""


class Model(Protocol):
    """Something that answers. `ask` raises `ModelUnavailable`; `on_text` is told each piece as it comes."""

    name: str
    style: Literal["standard", "small"]
    """Which prompts suit it: `small` for models that need few words and typed schemas."""

    async def ask(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply: ...
    async def aclose(self) -> None: ...


@runtime_checkable
class Priced(Protocol):
    """A model that can say beforehand what it costs, or that nobody knows."""

    name: str

    def price(self) -> Price | None: ...


@runtime_checkable
class Replayed(Protocol):
    """A model that answers from a recording, which has what was read of earlier tasks, too."""

    name: str

    def previous_read(self, task: str) -> JsonObject | None:
        """What a task of these words has read, the next time it did; None where that was not recorded."""
        ...

    def knows_previous(self, task: str) -> bool:
        """Whether there is such a reading left."""
        ...


@runtime_checkable
class Records(Protocol):
    """A model whose answers are recorded, with what is read of earlier tasks."""

    name: str

    def keep_previous(self, task: str, read: JsonObject) -> None: ...


@runtime_checkable
class Warmable(Protocol):
    """A model that takes long to load and may be told to begin."""

    style: Literal["standard", "small"]

    def warm(self, instructions: str = "") -> None: ...
