"""What changed from one version of a plan to the next."""

from __future__ import annotations

from typing import Any

from replan.core.types import Frozen, JsonObject, Plan, Step, StepId
from replan.core.words import beginning, some, text_of


class StepChange(Frozen):
    """A step that both versions have, and the fields in which they differ."""

    step_id: StepId
    fields: tuple[str, ...]


class PlanDiff(Frozen):
    """Old to new, by step id."""

    added: tuple[StepId, ...] = ()
    removed: tuple[StepId, ...] = ()
    changed: tuple[StepChange, ...] = ()
    kept: int = 0
    """Steps that are as they were."""

    def words(self) -> str:
        """`+ step_5, step_6; - step_2; step_3: parameters; 4 kept`."""
        parts = [f"+ {some(self.added, _MOST)}"] if self.added else []
        parts += [f"- {some(self.removed, _MOST)}"] if self.removed else []
        parts += [f"{change.step_id}: {', '.join(change.fields)}" for change in self.changed[:_MOST]]
        parts += [f"{len(self.changed) - _MOST} more changed"] if len(self.changed) > _MOST else []
        parts += [f"{self.kept} kept"] if self.kept else []
        return "; ".join(parts)


_MOST = 20


def diff_of(old: Plan | None, new: Plan) -> PlanDiff:
    """What a reader of the old plan has to know of the new one."""
    before = {step.step_id: step for step in old.steps} if old is not None else {}
    after = {step.step_id: step for step in new.steps}
    changed = []
    for step_id, step in after.items():
        known = before.get(step_id)
        if known is not None and known != step:
            fields = tuple(
                name for name in type(step).model_fields if getattr(known, name) != getattr(step, name)
            )
            changed.append(StepChange(step_id=step_id, fields=fields))
    both = len(before.keys() & after.keys())
    return PlanDiff(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(changed),
        kept=both - len(changed),
    )


# ── with what it was and what it is: for whoever is to agree to it, or looks at it later ──

_SHOWN = 200
"""Characters of a value in a line."""


class FieldChange(Frozen):
    """One field of a step that both plans have."""

    name: str
    before: Any = None
    after: Any = None


class ChangedStep(Frozen):
    step_id: StepId
    fields: tuple[FieldChange, ...]


class PlanChanges(Frozen):
    """From the plan before to this one, step by step."""

    before: int | None = None
    """The version that it is held against; None: there was none before it."""
    added: tuple[JsonObject, ...] = ()
    """Steps that only this plan has, as it has them."""
    removed: tuple[JsonObject, ...] = ()
    """Steps that only the other one has."""
    changed: tuple[ChangedStep, ...] = ()
    kept: int = 0
    """Steps that are as they were."""

    def lines(self) -> list[str]:
        """For a terminal: `+` what is new, `-` what is gone, `~` what has changed, and how."""
        said = [f"+ {_words(step)}" for step in self.added]
        said += [f"- {_words(step)}" for step in self.removed]
        for step in self.changed:
            said.append(f"~ {step.step_id}")
            said += [f"    {one.name}: {_value(one.before)} → {_value(one.after)}" for one in step.fields]
        return [*said, f"  {self.kept} as before"] if said and self.kept else said


def changes_of(old: Plan | None, new: Plan) -> PlanChanges:
    """Old to new, by the ids of the steps; parameters one by one."""
    before = {step.step_id: step for step in old.steps} if old is not None else {}
    after = {step.step_id: step for step in new.steps}
    changed = [
        ChangedStep(step_id=name, fields=tuple(_fields(before[name], step)))
        for name, step in after.items()
        if name in before and before[name] != step
    ]
    return PlanChanges(
        before=old.version if old is not None else None,
        added=tuple(_told(step) for name, step in after.items() if name not in before),
        removed=tuple(_told(step) for name, step in before.items() if name not in after),
        changed=tuple(changed),
        kept=len(before.keys() & after.keys()) - len(changed),
    )


def _fields(old: Step, new: Step) -> list[FieldChange]:
    found: list[FieldChange] = []
    was, now = old.model_dump(mode="json"), new.model_dump(mode="json")
    for name in type(new).model_fields:
        if was.get(name) == now.get(name):
            continue
        if name != "parameters":
            found.append(FieldChange(name=name, before=was.get(name), after=now.get(name)))
            continue
        known = {**was[name], **now[name]}
        found += [
            FieldChange(name=f"{name}.{one}", before=was[name].get(one), after=now[name].get(one))
            for one in known
            if was[name].get(one) != now[name].get(one) or (one in was[name]) != (one in now[name])
        ]
    return found


def _told(step: Step) -> JsonObject:
    """Without what it does not say."""
    return step.model_dump(mode="json", exclude_defaults=True)


def _words(step: JsonObject) -> str:
    tools = [step["tool"]] if step.get("tool") else [one["tool"] for one in step.get("actions", ())]
    given = f"({_value(step['parameters'])})" if step.get("parameters") else ""
    return f"{step['step_id']}: {', '.join(tools)}{given}"


def _value(value: Any) -> str:
    return "nothing" if value is None else beginning(text_of(value), _SHOWN)
