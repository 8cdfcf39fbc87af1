"""References to tasks that the task of a plan follows: whether what they name is there, with what is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from replan.core.following.told import PreviousTask
from replan.core.references.paths import PathError, select
from replan.core.references.refs import FOLLOWED, Reference, gives_output, written_as_text
from replan.core.types import JsonObject
from replan.core.words import some


class Followed(NamedTuple):
    """What can be referred to of the tasks that are followed, by its name in references."""

    schemas: Mapping[str, JsonObject | None] = {}
    """All of it, with what is known of its form."""
    values: Mapping[str, Any] = {}
    """What of it is at hand."""
    lacking: Mapping[str, str] = {}
    """What is not there, and why."""

    @classmethod
    def of(cls, tasks: Iterable[PreviousTask]) -> Followed:
        schemas: dict[str, JsonObject | None] = {}
        values: dict[str, Any] = {}
        lacking: dict[str, str] = {}
        for task in tasks:
            for name, _, kept in task.values():
                at_hand = kept.artifact is None
                schemas[name] = _form(kept.value) if at_hand else None
                if at_hand and not kept.files:
                    values[name] = kept.value
            lacking.update(task.lacking())
        return cls(schemas, values, lacking)

    def problem(self, ref: Reference) -> str:
        """What is wrong with a reference to one of them; empty if nothing is."""
        if ref.problem:
            return ref.problem
        if ref.head not in self.schemas:
            return self._not_there(ref)
        if not ref.path or ref.within or ref.head not in self.values:
            return ""
        try:
            select(ref.path, self.values[ref.head])
        except PathError as error:
            has = f"; it has: {', '.join(error.available[:20])}" if error.available else ""
            return f"{ref.raw} selects nothing in what {ref.head} has given: {error.why}{has}"
        return ""

    def condition_problems(self, looked_at: Iterable[tuple[str, str | None]]) -> Iterator[str]:
        """The same of the names that a condition starts from."""
        for name, part in looked_at:
            if (head := f"{name}.{part}") not in self.schemas:
                why = self.lacking.get(head)
                yield f"`when`: {head}: {why}" if why else f"`when`: {self._there_is()}"

    def _not_there(self, ref: Reference) -> str:
        why = self.lacking.get(ref.head) or (self._there_is() if self.schemas or self.lacking else _NONE)
        return f"{ref.raw}: {why}; if it is meant as text, write it as {written_as_text(ref.raw)}"

    def _there_is(self) -> str:
        names = [f"{name}.output" if gives_output(name) else name for name in self.schemas]
        return f"of earlier tasks there is {some(names, 20)}" if names else "earlier tasks have given nothing"


_NONE = "this task follows no other one whose outputs it could have"
NOTHING = Followed()


def is_followed(name: str) -> bool:
    """True for what references, and conditions, may name a task by that is followed."""
    return FOLLOWED.fullmatch(name.partition(".")[0]) is not None


def _form(value: Any) -> JsonObject | None:
    """What is told of its form beside its value."""
    match value:
        case list():
            return {"type": "array"}
        case dict():
            return {"type": "object"}
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case _:
            return None  # a text may hold anything as JSON
