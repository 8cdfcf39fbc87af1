"""Where the values of a call come from: said beside it, for whoever is to agree to it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from replan.core.types import Frozen, StepId


class Origin(Frozen):
    """Of one parameter, or of a part of it.

    `plan`: the plan itself says it; `step`: what a step has given; `answer`: what a person has said to a step that asks; `item`: the item of
    a `for_each`; `metadata`: what came with the task, or steps have added to it; `previous`: what an earlier task has given; `person`: somebody has
    put it in place of what was shown; `recovery`: it was put in place of what has failed; `tool`: its default; `other`: else (a number of an item, the task's id).
    """

    kind: Literal[
        "plan", "step", "answer", "item", "metadata", "previous", "person", "recovery", "tool", "other"
    ]
    step_id: StepId | None = Field(default=None, exclude_if=lambda value: value is None)
    path: str = Field(default="", exclude_if=lambda value: not value)
    """Into what that has given; empty: all of it."""

    def words(self) -> str:
        """`the output of step a at items[0]`."""
        at = f" at {self.path}" if self.path else ""
        match self.kind:
            case "plan":
                return "the plan says it"
            case "step":
                return f"the output of step {self.step_id}{at}"
            case "answer":
                return f"a person's answer in step {self.step_id}{at}"
            case "item":
                return f"the item{at}"
            case "metadata":
                return f"the task's metadata{at}"
            case "previous":
                return f"an earlier task{at}"
            case "person":
                return "a person has put it in"
            case "recovery":
                return "put in place of what had failed"
            case "tool":
                return "the tool's default"
            case "other":
                return f"the task{at}"
