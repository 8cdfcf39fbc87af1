"""What recovery has done for one step that failed, so far."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from replan.core import events as e
from replan.core.calls.site import Slot
from replan.core.ids import canonical
from replan.core.reflection import RETRIES, SuggestedAction
from replan.core.types import JsonObject, ToolId


class Override(NamedTuple):
    """What a call is made with in place of what the plan says."""

    tool_id: ToolId | None = None
    """None: the planned tool."""
    parameters: JsonObject = {}
    whole: bool = False
    """True: these are all the parameters; False: they go over the planned ones."""
    without: tuple[str, ...] = ()
    """Planned ones that are left out."""


@dataclass(slots=True)
class Reading:
    """What was read to find out whether a call took effect."""

    call_key: str
    tool_id: ToolId
    parameters: JsonObject
    output: str = ""
    """As JSON text; empty: it gave nothing yet, or failed."""
    error: str = ""
    at: float = 0.0
    """When it was made."""


@dataclass(slots=True)
class Healing:
    """The recovery of one step, over all of its lives: retries, repairs, and rounds that keep it."""

    reflected: list[e.StepReflected] = field(default_factory=list)
    overrides: dict[Slot, Override] = field(default_factory=dict)
    changed: dict[str, Slot] = field(default_factory=dict)
    """By its content: a call that a person has put another one in place of."""
    pending: dict[Slot, SuggestedAction] = field(default_factory=dict)
    """Decided, and not begun."""
    repairs: int = 0
    """Those of the steps whose place it has taken included."""
    repairs_before: int = 0
    """Those of these steps alone."""
    repaired_at: int = 0
    """How many failures there were at the last repair."""
    readings: dict[Slot, list[Reading]] = field(default_factory=dict)
    earlier: list[e.StepReflected] = field(default_factory=list)
    """Failed tries of the steps of earlier plans whose place this one has taken."""
    rewritten: list[e.StepReflected] = field(default_factory=list)
    """Failures after which the step really was written anew."""

    _of: dict[Slot, list[e.StepReflected]] = field(default_factory=dict)
    _bases: set[str] = field(default_factory=set)

    def heir(self) -> Healing:
        """What a step of a later plan begins with that takes this one's place: all that was tried, nothing decided."""
        return Healing(
            repairs=self.repairs,
            repairs_before=self.repairs,
            earlier=[*self.earlier, *self.failures()],
            rewritten=list(self.rewritten),
            _bases=set(self._bases),
        )

    def pause(self, secs: float) -> None:
        """For so long nobody drove the task: its readings are told later by that, as the doubts that they are about."""
        for made in self.readings.values():
            for reading in made:
                reading.at += secs

    def take(self, event: e.StepReflected) -> None:
        """One more diagnosis."""
        self.reflected.append(event)
        self._of.setdefault(event.slot, []).append(event)
        if event.fresh and event.base:
            self._bases.add(event.base)

    def with_failure(self, event: e.StepReflected) -> Healing:
        """The same with one more failure, which is about to be decided upon; shares what it can."""
        return replace(
            self,
            reflected=[*self.reflected, event] if self.repairs else [event],
            _of={event.slot: [*self._of.get(event.slot, ()), event]},
            _bases=self._bases | {event.base} if event.fresh and event.base else self._bases,
        )

    def failures(self, slot: Slot | None = None) -> list[e.StepReflected]:
        """One for each failed try; of one call of the step, or of all."""
        known = self.reflected if slot is None else self._of.get(slot, ())
        return [one for one in known if one.fresh]

    def slots(self) -> list[Slot]:
        """The calls that have failed."""
        return list(self._of)

    def latest(self, slot: Slot) -> e.StepReflected | None:
        """The latest diagnosis of this call."""
        known = self._of.get(slot)
        return known[-1] if known else None

    def settled(self, slot: Slot) -> int:
        """How often this call's outcome was settled by a reading."""
        return sum(one.action.type == "settle_outcome" for one in self._of.get(slot, ()))

    def alike(self, slot: Slot, tool_id: ToolId, parameters: JsonObject) -> list[Reading]:
        """The readings about this call that were made by this tool with these parameters, and came to an end."""
        return [
            one
            for one in self.readings.get(slot, ())
            if (one.output or one.error) and (one.tool_id, one.parameters) == (tool_id, parameters)
        ]

    def shown(self, slot: Slot) -> list[Reading]:
        """What the readings about this call show: of one that was made again what it gave last."""
        given = [one for one in self.readings.get(slot, ()) if one.output]
        latest = {(one.tool_id, canonical(one.parameters)): one for one in given}
        return [one for one in given if one is latest[one.tool_id, canonical(one.parameters)]]

    def retries(self, slot: Slot) -> int:
        """How many tries of layer 1 this call has had, in earlier plans too."""
        known = (*self._before(slot), *self._of.get(slot, ()))
        return sum(one.action.type in RETRIES for one in known)

    def tried(self) -> set[str]:
        """The contents (`ids.call_base`) that were tried for this step and failed."""
        return self._bases

    def tools_tried(self, slot: Slot) -> set[ToolId]:
        return {one.tool_id for one in (*self._before(slot), *self.failures(slot))}

    def repeated(self, slot: Slot) -> bool:
        """True if some error of this call has been seen twice; the first time may have been in an earlier plan."""
        seen = [one.signature for one in self.failures(slot)]
        return len(seen) != len(set(seen)) or any(one.signature in seen for one in self._before(slot))

    def _before(self, slot: Slot) -> list[e.StepReflected]:
        """The failures of earlier plans that this call follows: those of the same item."""
        return [one for one in self.earlier if one.index == slot.item]

    def unmended(self) -> bool:
        """True if the last repair changed nothing: the same error came again after it."""
        failures = self.failures()
        before = {one.signature for one in (*self.earlier, *failures[: self.repaired_at])}
        return self.repairs > 0 and any(one.signature in before for one in failures[self.repaired_at :])

    def restart(self, keep: Collection[Slot] = ()) -> None:
        """The step begins anew as planned but for the calls to `keep`; what has been tried stays known."""
        self.overrides = {slot: one for slot, one in self.overrides.items() if slot in keep}
        self.pending.clear()
        self.readings.clear()
