"""The kinds of task and the workflows that a model may name, as it is shown them. They are words of whoever runs Replan."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.kinds.known import Offered
from replan.core.kinds.scene import DEFAULT
from replan.core.kinds.slots import told
from replan.core.kinds.workflow import Workflow
from replan.core.types import JsonObject, Role
from replan.core.words import one_line
from replan.reasoning.prompting.history import shorten
from replan.reasoning.prompting.recovery_text import joined

ROOM = {"standard": 12_000, "small": 1_600}
"""Characters of guidance for kinds of which one is still to be chosen."""
_DESCRIPTION = 300
_SLOTS = 400


def guided(text: str, guidance: str) -> str:
    """A part of a prompt with guidance below it; without any, the part as it is."""
    return joined(text, guidance) if guidance else text


def room_for(offered: Offered, role: Role) -> bool:
    """True if all that the scenes say to that role can be shown before one of them is chosen."""
    return sum(len(scene.guidance(role)) for scene in offered.scenes) <= ROOM["standard"]


def offered_text(offered: Offered, role: Role, style: str) -> str:
    """What there is to choose from; empty if there is nothing."""
    kinds = [
        f"- {scene.task_type}: {one_line(scene.description) or 'every other task'}"
        + _indented(shorten(scene.guidance(role), ROOM[style] // len(offered.scenes)))
        for scene in offered.scenes
    ]
    lines = [_line(workflow) for workflow in offered.workflows]
    if offered.scenes and DEFAULT not in {scene.task_type for scene in offered.scenes}:
        kinds.append(f"- {DEFAULT}: every other task")
    no_steps = ', and write `"steps": []`' if role == "planning" else ""
    return joined(
        "# Kinds of task (`task_type`)\n\n" + "\n".join(kinds) if kinds else "",
        (
            "# Workflows (`workflow_id`)\n\nPlans that were written beforehand. Where one of them does just what the task asks, and all of "
            f"it, name it{no_steps}: you are asked for what its slots are filled with after that. Else null.\n"
            + "\n".join(lines)
        )
        if lines
        else "",
    )


def _indented(text: str) -> str:
    return "".join(f"\n    {line}" for line in text.splitlines()) if text else ""


def _line(workflow: Workflow) -> str:
    slots = ", ".join(told(name, workflow) for name in workflow.slots)
    return f"- {workflow.workflow_id}({shorten(slots, _SLOTS)}): {shorten(one_line(workflow.description), _DESCRIPTION)}"


def chosen_schemas(offered: Offered) -> JsonObject:
    """The schemas of `task_type` and `workflow_id` where there is a choice."""
    found: JsonObject = {}
    if offered.scenes:
        found["task_type"] = {
            "enum": list(dict.fromkeys([*(one.task_type for one in offered.scenes), DEFAULT]))
        }
    if offered.workflows:
        found["workflow_id"] = {"enum": [*(one.workflow_id for one in offered.workflows), None]}
    return found


def with_choice(schema: JsonObject, offered: Offered, style: str) -> JsonObject:
    """The schema of an answer that also says which kind of task it is, and which workflow does it."""
    chosen = chosen_schemas(offered)
    if not chosen:
        return schema
    required: Sequence[str] = [*chosen, *schema["required"]] if style == "small" else schema["required"]
    return {**schema, "properties": {**chosen, **schema["properties"], **chosen}, "required": list(required)}
