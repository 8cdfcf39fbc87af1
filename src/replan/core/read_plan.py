"""From an answer, or a file, to a plan: tolerant in form, strict in sense."""

from __future__ import annotations

import json
from typing import Any

from replan.core.types import Action, JsonObject, Plan, Step
from replan.errors import PlanInvalid


def read_plan(answer: JsonObject, *, plan_id: str, version: int = 1, task: str = "") -> Plan:
    """The plan that the answer describes. `PlanInvalid` with every fault of form; sense is `check_plan`'s."""
    faults: list[str] = []
    raw_steps = answer.get("steps", [])
    if isinstance(raw_steps, str):
        raw_steps = _parsed(raw_steps)
    if not isinstance(raw_steps, list):
        raise PlanInvalid(["`steps` has to be a list of steps"])
    steps = [_step(raw, f"steps[{at}]", at, faults) for at, raw in enumerate(raw_steps)]
    if faults:
        raise PlanInvalid(faults)
    return Plan(
        plan_id=plan_id,
        version=version,
        task_description=str(answer.get("task_description") or task),
        steps=tuple(step for step in steps if step is not None),
        estimated_duration=_number(answer.get("estimated_duration")),
        reasoning=str(answer.get("reasoning") or ""),
    )


def _step(raw: Any, where: str, at: int, faults: list[str]) -> Step | None:
    if not isinstance(raw, dict):
        faults.append(f"{where} has to be an object with step_id, tool and parameters")
        return None
    step_id = _text(raw.get("step_id", raw.get("id"))) or f"step_{at + 1}"
    where = f"step {step_id!r}"
    actions = raw.get("actions") or []
    if isinstance(actions, str):
        actions = _parsed(actions)
    if not isinstance(actions, list):
        faults.append(f"{where}: `actions` has to be a list")
        actions = []
    return Step(
        step_id=step_id,
        name=_text(raw.get("name")),
        tool=_text(raw.get("tool", raw.get("tool_id"))),
        parameters=_parameters(raw.get("parameters"), where, faults),
        dependencies=_names(raw.get("dependencies"), where, faults),
        expected_output=_text(raw.get("expected_output")),
        actions=tuple(
            action
            for n, item in enumerate(actions)
            if (action := _action(item, where, step_id, n, faults)) is not None
        ),
        when=_text(raw.get("when")) or None,
        for_each=_text(raw.get("for_each")) or None,
        timeout_secs=_timeout(raw.get("timeout_secs"), where, faults),
        requires_approval=_truth(raw.get("requires_approval")),
        repeat=_truth(raw.get("repeat")),
    )


def _action(raw: Any, where: str, step_id: str, at: int, faults: list[str]) -> Action | None:
    if not isinstance(raw, dict):
        faults.append(f"{where}: actions[{at}] has to be an object with action_id, tool and parameters")
        return None
    action_id = _text(raw.get("action_id", raw.get("id"))) or f"{step_id}_action_{at + 1}"
    return Action(
        action_id=action_id,
        name=_text(raw.get("name")),
        tool=_text(raw.get("tool", raw.get("tool_id"))),
        parameters=_parameters(raw.get("parameters"), f"{where}, action {action_id!r}", faults),
        repeat=_truth(raw.get("repeat")),
    )


def _parameters(raw: Any, where: str, faults: list[str]) -> JsonObject:
    if raw is None or raw == "":
        return {}
    if isinstance(raw, str):
        read = _parsed(raw)
        if not isinstance(read, dict):
            faults.append(f"{where}: `parameters` is a text that holds no JSON object: {raw[:80]!r}")
            return {}
        raw = read
    if not isinstance(raw, dict):
        faults.append(f"{where}: `parameters` has to be an object, not {type(raw).__name__}")
        return {}
    return {str(key): value for key, value in raw.items()}


def _names(raw: Any, where: str, faults: list[str]) -> tuple[str, ...]:
    if raw is None or raw == "":
        return ()
    if isinstance(raw, str):
        raw = [part.strip() for part in raw.split(",") if part.strip()]
    if not isinstance(raw, list | tuple):
        faults.append(f"{where}: `dependencies` has to be a list of step ids")
        return ()
    return tuple(dict.fromkeys(_text(item) for item in raw if _text(item)))


def _timeout(raw: Any, where: str, faults: list[str]) -> float | None:
    if raw is None or raw == "":
        return None
    number = _number(raw)
    if number is None or not 0 < number < 1e9:
        faults.append(f"{where}: `timeout_secs` has to be a number of seconds above 0, not {raw!r}")
        return None
    return number


def _number(raw: Any) -> float | None:
    if isinstance(raw, bool):
        return None
    if isinstance(raw, int | float):
        return float(raw)
    try:
        return float(raw) if isinstance(raw, str) else None
    except ValueError:
        return None


def _truth(raw: Any) -> bool:
    return raw.strip().lower() in ("true", "yes", "1") if isinstance(raw, str) else bool(raw)


def _text(raw: Any) -> str:
    if raw is None or isinstance(raw, dict | list | bool):
        return ""
    return str(raw).strip()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
