"""From an answer, or a file, to a plan: tolerant in form, strict in sense."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from replan.core.data.for_readers import folded
from replan.core.data.native_calls import as_step
from replan.core.data.nothing import is_filler, says_there_is_none
from replan.core.data.strict_json import NotStorable, joined
from replan.core.data.taken_back import asks
from replan.core.plan.fields import (
    ACTION_FIELDS,
    DECLINING,
    MOST_TOLD,
    STEP_FIELDS,
    named,
    named_of_plan,
    order_of,
)
from replan.core.texts_as_json import read_text
from replan.core.types import Action, JsonObject, Plan, Step
from replan.core.waits.polled import polled
from replan.core.words import kind_of
from replan.errors import PlanInvalid

MAX_DEPTH = 64
"""Levels of objects and lists within a plan."""


class PlanMisread(PlanInvalid):
    """A plan with faults of form, of which the rest could be read: `plan` is what was meant, as far as that shows."""

    def __init__(self, violations: Sequence[str], plan: Plan) -> None:
        super().__init__(violations)
        self.plan = plan

    def with_plan(self, plan: Plan) -> PlanMisread:
        """The same faults, of a plan that what was read is a part of."""
        return PlanMisread(self.violations, plan)

    def and_what_else(self, check: Callable[[Plan], Sequence[str]]) -> tuple[str, ...]:
        """Every fault in one list: those of form, and what the checks find in the rest."""
        return tuple(dict.fromkeys([*self.violations, *check(self.plan)]))


def read_plan(answer: JsonObject, *, plan_id: str, version: int = 1, task: str = "") -> Plan:
    """The plan that the answer describes. `PlanInvalid` with every fault of form; sense is `check_plan`'s.

    `PlanMisread` where the rest of it can be checked nonetheless.
    """
    faults: list[str] = []
    answer = _unwrapped(answer)
    steps: Sequence[Step | None] | None = _steps_as_written(answer)
    body = _clean(answer if steps is None else {**answer, "steps": []}, "the plan", faults)
    if faults:
        raise PlanInvalid(_told(faults))
    if steps is not None:
        body["steps"] = answer["steps"]  # by any other name they might be others
    fields = named_of_plan(body, faults) if isinstance(body, dict) else {}
    declined = declining(fields, body)
    if steps is None:
        raw_steps = [] if declined and fields.get("steps") in (None, "") else _steps_of(body)
        steps = [_step(raw, f"steps[{at}]", at, faults) for at, raw in enumerate(raw_steps)]
    if declined and steps:
        name, said = next(iter(declined.items()))
        faults.append(
            f"`{name}` says {said[:80]!r} beside steps: if they are to be run, leave `{name}` out or write null, also where it only says that there is "
            "nothing of the kind; if not, leave the steps out"
        )
    plan = Plan(
        plan_id=plan_id,
        version=version,
        task_description=_text(fields.get("task_description")) or task,
        steps=tuple([step for step in steps if step is not None]),
        estimated_duration=_number(fields.get("estimated_duration")),
        reasoning=_text(fields.get("reasoning")),
        more="" if declined else _still_to_plan(fields),
        **declined,
    )
    if faults:
        raise PlanMisread(_told(faults), plan)
    return plan


_MOST_OF_ONE = 2_000
"""Characters of one of them."""


def _told(faults: Sequence[str]) -> list[str]:
    found = [text if len(text) <= _MOST_OF_ONE else text[:_MOST_OF_ONE] + "…" for text in faults[:MOST_TOLD]]
    if len(faults) > MOST_TOLD:
        found.append(f"and {len(faults) - MOST_TOLD:,} more: mend these and everything that is like them")
    return found


def declining(fields: JsonObject, body: Any) -> dict[str, str]:
    """What is said in place of a plan: why there is none, or what is to be asked first.

    That something is to be asked (`ask_first: true`) is said better by what stands under one of its other names.
    """
    said = {name: _words(fields.get(name)) for name in DECLINING}
    for name in DECLINING:
        if said[name].casefold() in _BARE and isinstance(body, dict):
            told = [_words(value) for key, value in body.items() if folded(key) in _OTHER_NAMES[name]]
            words = "; ".join(one for one in told if one.casefold() not in _BARE)
            said[name] = words or (said[name] and _words(fields.get("reasoning"))) or said[name]
    if asks(said["cannot"]) and not said["ask_first"]:
        said = {"ask_first": said["cannot"]}
    return {name: text for name, text in said.items() if not says_there_is_none(text)}


_OTHER_NAMES = {name: frozenset(map(folded, others)) for name, others in DECLINING.items()}
_NO_REASON = "(no reason was given)"
_BARE = {"", _NO_REASON, "yes", "true", "ja", "是"}


def _still_to_plan(fields: JsonObject) -> str:
    """What a plan that is a first part says of the rest."""
    said = fields.get("more")
    if not said:
        return ""
    return "the rest (it was not said what)" if said is True else _words(said)


def _words(said: Any) -> str:
    """What is said, in whatever form: a text, several, an object of texts, or no more than that it is so."""
    if isinstance(said, dict | list):
        parts = said.values() if isinstance(said, dict) else said
        return "; ".join(text for part in parts if (text := _words(part)))
    text = _NO_REASON if said is True else _text(said)
    return "" if is_filler(text) else text


def _unwrapped(answer: Any) -> Any:
    """The plan in an object that holds one, with what stands beside it."""
    if isinstance(answer, dict) and "steps" not in answer:
        for name in ("plan", "execution_plan"):
            if isinstance(inner := answer.get(name), dict):
                beside = {key: value for key, value in answer.items() if key != name}
                return beside | {key: value for key, value in inner.items() if value or key not in beside}
    return answer


def _steps_of(body: Any) -> list[Any]:
    if isinstance(body, list):
        return body
    if not isinstance(body, dict) or "steps" not in body:
        has = (
            f", and has: {', '.join(map(str, list(body)[:10])) or 'nothing'}"
            if isinstance(body, dict)
            else ""
        )
        raise PlanInvalid([f"a plan is an object with a list `steps`; this is {kind_of(body)}{has}"])
    steps = body["steps"]
    read = read_text(steps) if isinstance(steps, str) else steps
    if isinstance(read, list):
        return read
    was = f"a text that holds no list: {steps[:80]!r}" if isinstance(steps, str) else kind_of(steps)
    raise PlanInvalid([f"`steps` has to be a list of steps, not {was}; [] where no tool has to be called"])


def _steps_as_written(answer: Any) -> list[Step] | None:
    """The steps, where each is written just as it is meant: nothing to clean, to rename or to convert."""
    raw_steps = answer.get("steps") if isinstance(answer, dict) else None
    if type(raw_steps) is not list:
        return None
    steps: list[Step] = []
    for raw in raw_steps:
        step = _step_as_written(raw)
        if step is None:
            return None
        steps.append(step)
    return steps


_PLAIN_FIELDS = frozenset({"step_id", "name", "tool", "parameters", "dependencies", "expected_output"})
_PLAIN_STEP = Step(step_id="").lean()


def _step_as_written(raw: Any) -> Step | None:
    if type(raw) is not dict or not raw.keys() <= _PLAIN_FIELDS:
        return None
    step_id, needs = raw.get("step_id"), raw.get("dependencies", [])
    name, expected, tool = raw.get("name", ""), raw.get("expected_output", ""), raw.get("tool", "")
    if not (step_id and _is_clean(step_id) and _is_clean(tool) and type(needs) is list):
        return None
    if (name != "" and not _is_clean(name)) or (expected != "" and not _is_clean(expected)):
        return None
    wanted: dict[str, None] = {}
    if needs:
        try:
            names = "".join(needs)
        except TypeError:
            return None
        if not (names.isprintable() and " " not in names and all(needs)):
            return None
        wanted = dict.fromkeys(needs)
    parameters = _parameters_as_written(raw.get("parameters", {}))
    if parameters is None:
        return None
    return _PLAIN_STEP.like(
        step_id=step_id,
        name=name,
        tool=tool,
        parameters=parameters,
        dependencies=tuple(wanted),
        expected_output=expected,
    )


def _is_clean(text: Any) -> bool:
    """A text that reading would not change."""
    return type(text) is str and text.isprintable() and text[:1] != " " and text[-1:] != " "


def _parameters_as_written(raw: Any) -> JsonObject | None:
    """A copy of the parameters; None where something in them has to be cleaned."""
    if type(raw) is not dict:
        return None
    out: JsonObject = {}
    faults: list[str] = []
    for name, value in raw.items():
        if type(name) is not str or not name.isascii():
            return None
        if type(value) not in _AS_THEY_ARE and not (type(value) is str and value.isascii()):
            value = _clean(value, "", faults, _PARAMETER_DEPTH)
            if faults:
                return None
        out[name] = value
    return out


_AS_THEY_ARE = (int, bool, type(None))
_PARAMETER_DEPTH = 4
"""Of a parameter's value in a plan: below the plan, its steps, the step, and the parameters."""


def _step(raw: Any, where: str, at: int, faults: list[str]) -> Step | None:
    if not isinstance(raw, dict):
        faults.append(f"{where} has to be an object with step_id, tool and parameters")
        return None
    called = _text(raw.get("step_id") or raw.get("id"))
    order = order_of(raw)
    raw = _with_reason(
        named(as_step(raw) or raw, STEP_FIELDS, f"step {called!r}" if called else where, faults)
    )
    step_id = _text(raw.get("step_id")) or f"step_{at + 1}"
    where = f"step {step_id!r}"
    fields = polled(_fields_of(raw, where, faults), raw, where, faults)
    if (actions := raw.get("actions") or []) and (actions := _list_of_actions(actions, where, faults)):
        read = [_action(item, where, step_id, n, faults) for n, item in enumerate(actions)]
        fields["actions"] = tuple(action for action in read if action is not None)
    fields["step_id"] = step_id
    return Step(**fields, order=order)


def _list_of_actions(raw: Any, where: str, faults: list[str]) -> list[Any]:
    actions = read_text(raw) if isinstance(raw, str) else raw
    if not isinstance(actions, list):
        faults.append(f"{where}: `actions` has to be a list, not {kind_of(raw)}")
        return []
    return actions


def _action(raw: Any, where: str, step_id: str, at: int, faults: list[str]) -> Action | None:
    if not isinstance(raw, dict):
        faults.append(
            f"{where}: actions[{at}] has to be an object with action_id, tool and parameters, not {kind_of(raw)}"
        )
        return None
    raw = _with_reason(named(as_step(raw) or raw, ACTION_FIELDS, f"{where}, actions[{at}]", faults))
    action_id = _text(raw.get("action_id")) or f"{step_id}_action_{at + 1}"
    where = f"{where}, action {action_id!r}"
    fields = _fields_of(raw, where, faults)
    return Action(**{"tool": "", **fields, "action_id": action_id})


def _fields_of(raw: JsonObject, where: str, faults: list[str]) -> dict[str, Any]:
    """The fields of a step or an action, each as its reader reads it."""
    fields = {
        name: _READERS[name](value, name, where, faults)
        for name, value in raw.items()
        if value is not None and name in _READERS
    }
    return (
        fields if fields.get("parameters", {}) is not None else {**fields, "parameters": {}, "unread": True}
    )


def _with_reason(raw: JsonObject) -> JsonObject:
    """The reason for which a call is meant again may stand in `repeat` itself."""
    said = raw.get("repeat")
    if not isinstance(said, str) or len(said.split()) < 2:
        return raw
    return {**raw, "repeat": True, "repeat_reason": raw.get("repeat_reason") or said}


def _parameters(raw: Any, name: str, where: str, faults: list[str]) -> JsonObject | None:
    if raw == "":
        return {}
    read = read_text(raw) if isinstance(raw, str) else raw
    if isinstance(raw, str) and isinstance(read, dict):
        read = _clean(read, f"{where}: `parameters`", faults)
    if isinstance(read, dict):
        return read
    if isinstance(raw, str):
        faults.append(
            f"{where}: `parameters` is a text that holds no JSON object with each key once: {raw[:80]!r}"
        )
    else:
        faults.append(f"{where}: `parameters` has to be an object, not {kind_of(raw)}")
    return None


def _names(raw: Any, name: str, where: str, faults: list[str]) -> tuple[str, ...]:
    if isinstance(raw, str) and isinstance(listed := read_text(raw), list):
        raw = listed
    if isinstance(raw, str):
        raw = [part.strip() for part in raw.strip("[]").split(",") if part.strip()]
    names = [_text(item) for item in raw] if isinstance(raw, list) else [""]
    if not all(names):
        faults.append(f"{where}: `{name}` has to be a list of step ids")
        return ()
    return tuple(dict.fromkeys(names))


def _names_of_steps(raw: Any, name: str, where: str, faults: list[str]) -> tuple[str, ...]:
    return tuple(one for one in _names(raw, name, where, faults) if not is_filler(one))


def _condition(raw: Any, name: str, where: str, faults: list[str]) -> str | None:
    if isinstance(raw, bool):
        return "`true`" if raw else "`false`"
    text = _word(raw, name, where, faults)
    return ("`true`" if text.casefold() in ("true", "always") else text) or None


def _list_reference(raw: Any, name: str, where: str, faults: list[str]) -> str | None:
    if isinstance(raw, list):  # the items themselves
        return json.dumps(raw, ensure_ascii=False)
    return _word(raw, name, where, faults) or None


def _word(raw: Any, name: str, where: str, faults: list[str]) -> str:
    if not isinstance(raw, str):
        faults.append(f"{where}: `{name}` has to be a text, not {kind_of(raw)}")
        return ""
    return raw.strip()


def _free_text(raw: Any, name: str, where: str, faults: list[str]) -> str:
    return _text(raw)


def _estimate(raw: Any, name: str, where: str, faults: list[str]) -> float | None:
    number = _number(raw)  # a guess only: one that cannot be read is none
    return number if number is not None and number >= 0 else None


def _timeout(raw: Any, name: str, where: str, faults: list[str]) -> float | None:
    if raw == "":
        return None
    number = _number(raw)
    if number is None or not 0 < number < 1e9:
        faults.append(f"{where}: `timeout_secs` has to be a number of seconds above 0, not {raw!r}")
        return None
    return number


def _truth(raw: Any, name: str, where: str, faults: list[str]) -> bool:
    text = raw.strip().lower() if isinstance(raw, str) else raw
    if text in (True, "true", "yes", "1"):
        return True
    if text not in (None, False, "false", "no", "0", ""):
        faults.append(f"{where}: `{name}` has to be true or false, not {raw!r}")
    return False


_READERS: dict[str, Callable[[Any, str, str, list[str]], Any]] = {
    "name": _free_text,
    "tool": _word,
    "parameters": _parameters,
    "dependencies": _names,
    "expected_output": _free_text,
    "when": _condition,
    "for_each": _list_reference,
    "timeout_secs": _timeout,
    "estimated_secs": _estimate,
    "requires_approval": _truth,
    "allow_failed_items": _truth,
    "instead_of": _names_of_steps,
    "repeat": _truth,
    "repeat_reason": _free_text,
}
"""How each field is read where it is given; `actions` and the ids are read by themselves."""


def _number(raw: Any) -> float | None:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(raw: Any) -> str:
    if type(raw) is str:
        return raw.strip()
    if raw is None or isinstance(raw, dict | list | bool):
        return ""
    try:
        return str(raw).strip()
    except ValueError:  # a number of thousands of digits
        return ""


def _clean(value: Any, where: str, faults: list[str], depth: int = 0) -> Any:
    """The value with what no store can hold said to be a fault."""
    if isinstance(value, str):
        return _clean_text(value, where, faults)
    if isinstance(value, dict | list | tuple):
        if depth >= MAX_DEPTH:
            faults.append(f"{where} is nested deeper than {MAX_DEPTH} levels; take levels out")
            return None
        if isinstance(value, dict):
            return {
                _clean_text(str(key), where, faults): _clean(item, where, faults, depth + 1)
                for key, item in value.items()
            }
        return [
            item if type(item) is str and item.isascii() else _clean(item, where, faults, depth + 1)
            for item in value
        ]
    if isinstance(value, float) and not math.isfinite(value):
        faults.append(f"{where} holds {value}, which is no JSON value; give a number, a text or null")
        return None
    return value


def _clean_text(text: str, where: str, faults: list[str]) -> str:
    if text.isascii():
        return text
    try:
        return joined(text)
    except NotStorable as error:
        faults.append(f"{where} holds {error}")
        return ""
