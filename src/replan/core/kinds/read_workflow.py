"""A workflow as it is written, read and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from replan.core.data.schemas import problems, types_of
from replan.core.data.validation import schema_problem, unheld
from replan.core.kinds.building import SLOTS, SlotRef, Unwritable, with_slots
from replan.core.kinds.misplaced import misplaced
from replan.core.kinds.scene import DEFAULT
from replan.core.kinds.slots import no_such_slot
from replan.core.kinds.workflow import Workflow
from replan.core.kinds.written import (
    MOST_DESCRIPTION,
    MOST_NAME,
    Fault,
    Faulty,
    Place,
    name_in,
    names_in,
    unknown_keys,
    words_in,
)
from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.plan.fields import ACTION_FIELDS, STEP_FIELDS
from replan.core.plan.read import read_plan
from replan.core.references.paths import check_path, static_steps
from replan.core.references.refs import ID, is_plain, references
from replan.core.references.scopes import At, Chain, Lacking, findings
from replan.core.secrets import may_say_secret
from replan.core.types import JsonObject, ToolSpec
from replan.core.words import kind_of
from replan.errors import PlanInvalid

MOST_SLOTS = 100
WORKFLOW_KEYS = ("id", "description", "slots", "optional", "steps", "task_type", "tools")


def read_workflow(raw: Any, digest: str, *, built_in: bool = False) -> Workflow:
    """`Faulty` with everything that is wrong."""
    if not isinstance(raw, dict):
        raise Faulty([Fault((), f"a workflow has id, description, slots and steps; this is {kind_of(raw)}")])
    faults = list(unknown_keys(raw, WORKFLOW_KEYS, "a workflow"))
    slots = _slots(raw, faults)
    steps = _steps(raw, faults)
    optional = names_in(raw, "optional", faults)
    for at, one in enumerate(optional):
        if one not in slots:
            faults.append(Fault(("optional", at), no_such_slot(one, slots)))
        elif "default" in slots[one]:
            faults.append(
                Fault(
                    ("optional", at),
                    f"slot {one!r} has a default, and so need not be given: leave it out here",
                )
            )
    task_type = name_in(raw, "task_type", faults) if "task_type" in raw else DEFAULT
    found = {
        "workflow_id": name_in(raw, "id", faults),
        "description": words_in(raw, "description", MOST_DESCRIPTION, faults, needed=True),
        "specs": names_in(raw, "tools", faults),
    }
    faults += misplaced(steps, slots, optional)
    if not faults or all(_is_of_one_place(fault) for fault in faults):
        known = {fault.at[:2] for fault in faults}
        faults += (fault for fault in _of_plan(_told_apart(steps), slots) if fault.at not in known)
    if faults:
        raise Faulty(faults)
    return Workflow(
        slots=slots,
        optional=optional,
        steps=tuple(steps),
        task_type=task_type,
        built_in=built_in,
        digest=digest,
        **found,
    )


def _slots(raw: JsonObject, faults: list[Fault]) -> dict[str, JsonObject]:
    given = raw.get("slots") or {}
    if not isinstance(given, dict):
        faults.append(
            Fault(("slots",), f"`slots` has a JSON Schema under each name; this is {kind_of(given)}")
        )
        return {}
    if len(given) > MOST_SLOTS:
        faults.append(Fault(("slots",), f"there are {len(given)} slots; at most {MOST_SLOTS} are allowed"))
        return {}
    found: dict[str, JsonObject] = {}
    for name, schema in given.items():
        at: Place = ("slots", name)
        if not ID.fullmatch(name) or len(name) > MOST_NAME:
            faults.append(
                Fault(
                    at, f"{name[:80]!r} is no name of a slot: letters, digits, _ and -, a letter or _ first"
                )
            )
        elif problem := _schema_problem(name, schema):
            faults.append(Fault(at, problem))
        found[name] = schema if isinstance(schema, dict) else {}
    return found


def _schema_problem(name: str, schema: Any) -> str:
    if problem := schema_problem(schema):
        return f"slot {name!r}: {problem}"
    if problem := unheld(schema):
        return (
            f"slot {name!r}: {problem}, so no value could be held to it: write it otherwise, or leave it out"
        )
    if may_say_secret(schema):
        return (
            f"slot {name!r} holds a secret, and what slots are filled with stands in logs and prompts: "
            f"write ${{metadata.{name}}}, and give it as a secret with the task"
        )
    if "default" in schema and (found := problems(schema, schema["default"])):
        return f"slot {name!r}: its default does not fit: {found[0]}"
    return ""


def _steps(raw: JsonObject, faults: list[Fault]) -> list[JsonObject]:
    given = raw.get("steps")
    if not isinstance(given, list) or not given:
        faults.append(Fault(("steps",), "`steps` is a list of steps, with at least one"))
        return []
    steps: list[JsonObject] = []
    seen: dict[str, int] = {}
    for at, step in enumerate(given):
        place: Place = ("steps", at)
        if not isinstance(step, dict):
            faults.append(Fault(place, f"a step has step_id, tool and parameters; this is {kind_of(step)}"))
            continue
        faults += unknown_keys(step, STEP_FIELDS, "a step", place)
        steps.append(step)
        name = step.get("step_id")
        if not isinstance(name, str) or not ID.fullmatch(name):
            faults.append(
                Fault(
                    (*place, "step_id"), f"a step has a `step_id` of letters, digits, _ and -, not {name!r}"
                )
            )
        elif name == SLOTS:
            faults.append(
                Fault(
                    (*place, "step_id"), f"no step is called {SLOTS!r}: that is what slots are referred to by"
                )
            )
        elif name in seen:
            faults.append(
                Fault(
                    (*place, "step_id"),
                    f"the step_id {name!r} is there twice: the steps {seen[name] + 1} and {at + 1}",
                )
            )
        else:
            seen[name] = at
        faults += _calls(step, place)
    return steps


def _told_apart(steps: list[JsonObject]) -> list[JsonObject]:
    """The steps without what is told already: with another id for one whose own another step has, and no unknown keys."""
    seen: set[str] = set()
    found = []
    for step in steps:
        name = str(step["step_id"])
        while name in seen:
            name += "_"
        seen.add(name)
        found.append({key: value for key, value in step.items() if key in STEP_FIELDS} | {"step_id": name})
    return found


def _is_of_one_place(fault: Fault) -> bool:
    """Whether what else is wrong can be told with it: it is in one step, which can be read."""
    return len(fault.at) > 2 and fault.at[0] == "steps"


def _calls(step: JsonObject, place: Place) -> Iterator[Fault]:
    actions = step.get("actions")
    if actions is not None and not (
        isinstance(actions, list) and all(isinstance(one, dict) for one in actions)
    ):
        yield Fault(
            (*place, "actions"), "`actions` is a list of calls, each with action_id, tool and parameters"
        )
        return
    for at, one in enumerate(actions or ()):
        yield from unknown_keys(one, ACTION_FIELDS, "an action", (*place, "actions", at))
    for one in actions or (step,):
        if not isinstance(one.get("parameters") or {}, dict):
            yield Fault(
                (*place, "parameters"), f"`parameters` is an object, not {kind_of(one['parameters'])}"
            )
        if not isinstance(one.get("tool"), str) or not one["tool"]:
            yield Fault(place, "it names no `tool`")


def _of_plan(steps: list[JsonObject], slots: Mapping[str, JsonObject]) -> Iterator[Fault]:
    """What is wrong with it as a plan, whatever its tools are and its slots are filled with."""

    def sample(ref: SlotRef) -> Any:
        found = _sample(slots[ref.name])
        for part in static_steps(ref.path) or () if ref.path else ():
            found = found.get(part, "text") if isinstance(found, dict) else "text"
        return found

    places = {str(step["step_id"]): at for at, step in enumerate(steps)}
    try:
        draft = read_plan(
            {"steps": [with_slots(step, sample) for step in steps]},
            plan_id="plan",
            version=1,
            task="workflow",
        )
    except (PlanInvalid, Unwritable) as error:
        told = error.violations if isinstance(error, PlanInvalid) else [str(error)]
        yield from (Fault(_place_of(text, places), text) for text in told)
        return

    def anything(name: str) -> ToolSpec:
        return ToolSpec(id=name, parameters={"type": "object"}, effect="reads")

    for step in steps:
        yield from (
            Fault(("steps", places[str(step["step_id"])]), text) for text in _inside_paths(step, slots)
        )
    names = [ref.path for ref in references(steps) if ref.head == "metadata" and ref.path]
    given = {str(path[0]): "text" for name in names if (path := static_steps(name))}
    checked = check_plan(draft, Toolbox(anything, lambda name: []), metadata=given, limits=PlanLimits())
    yield from (Fault(_place_of(text, places), text) for text in checked.violations)


def _inside_paths(step: JsonObject, slots: Mapping[str, JsonObject]) -> Iterator[str]:
    """The slots that a filter or a projection names, where nothing fills them in."""

    def meant(chain: Chain) -> str:
        return "a slot" if chain[0] == SLOTS and len(chain) > 1 and chain[1] in (*slots, "id") else ""

    paths = {ref.raw: ref.path for ref in references(step) if ref.path and not ref.problem}
    when = step.get("when")
    if isinstance(when, str) and is_plain(when) and not check_path(when):
        paths[when] = when
    for raw, path in paths.items():
        for one in findings(path, At(None), meant)[0]:
            if not isinstance(one, Lacking):
                yield f"{raw}: {one.say()}; a slot is written ${{slots.NAME}} there, without quotes"


def _place_of(text: str, places: Mapping[str, int]) -> Place:
    """The step that a message begins with."""
    for name, at in places.items():
        if text.startswith((f"step {name!r}", f"{name}:", f"{name} ")):
            return ("steps", at)
    return ("steps",)


def _sample(schema: JsonObject) -> Any:
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    for name in ("enum", "examples"):
        if isinstance(schema.get(name), list) and schema[name]:
            return schema[name][0]
    kinds = types_of(schema) or frozenset()
    for kind, value in _SAMPLES.items():
        if kind in kinds:
            return value
    return "text"


_SAMPLES: Mapping[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": ["item"],
    "object": {},
}
