"""What changed from one version of a plan to the next."""

from __future__ import annotations

from replan.core.types import Frozen, Plan, StepId
from replan.core.words import some


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
