"""References to slots where none can stand, or to none that there is; and slots that nothing refers to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from replan.core.data.schemas import types_of
from replan.core.kinds.building import TEXTS, slot_of, slots_in
from replan.core.kinds.slots import no_such_slot
from replan.core.kinds.written import Fault, Place
from replan.core.references.refs import whole
from replan.core.types import JsonObject


def misplaced(
    steps: list[JsonObject], slots: Mapping[str, JsonObject], optional: Collection[str]
) -> Iterator[Fault]:
    """References to slots that there are not, or where no slot can stand; and slots that nothing refers to."""
    used: set[str] = set()
    for at, step in enumerate(steps):
        for field, value in step.items():
            place: Place = ("steps", at, field)
            for ref in slots_in(value):
                used.add(ref.name)
                if ref.problem:
                    yield Fault(place, ref.problem)
                elif ref.name not in slots:
                    yield Fault(place, no_such_slot(ref.name, slots))
            if field in ("parameters", "actions"):
                yield from _in_names(value, place)
                yield from _within_text(value, place, optional)
            elif field not in TEXTS and slots_in(value):
                yield Fault(
                    place,
                    f"a slot cannot stand in `{field}`, but in parameters, for_each and when: what it is filled with is data",
                )
            elif field == "for_each":
                alone = whole(value) if isinstance(value, str) else None
                ref_alone = slot_of(alone) if alone is not None else None
                kinds = (
                    types_of(slots.get(ref_alone.name))
                    if ref_alone is not None and not ref_alone.path
                    else None
                )
                if kinds is not None and "array" not in kinds:
                    yield Fault(place, f"`for_each` needs a list, and slot {ref_alone.name!r} is none")  # type: ignore[union-attr]
    for name in slots:
        if name not in used:
            yield Fault(
                ("slots", name),
                f"no step refers to slot {name!r}: write ${{slots.{name}}} where it is needed, or leave it out",
            )


def _in_names(value: Any, place: Place) -> Iterator[Fault]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            for key in one:
                if slots_in(str(key)):
                    yield Fault(
                        place, f"a slot cannot stand in a name ({str(key)[:80]!r}), but in values alone"
                    )
            if "tool" in one and slots_in(one["tool"]):
                yield Fault(place, "a slot cannot name a tool")
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _within_text(value: Any, place: Place, optional: Collection[str]) -> Iterator[Fault]:
    """Slots that may stay empty, within a longer text: what would stand there then?"""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
        elif isinstance(one, str) and whole(one) is None:
            for ref in slots_in(one):
                if ref.name in optional:
                    yield Fault(
                        place,
                        f"slot {ref.name!r} may stay empty, so it stands alone as a parameter, which is left out then; within a text give it a default",
                    )
