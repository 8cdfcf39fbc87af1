"""Puts exactly one fault of one kind into a recorded task, and knows what mends it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bench.recovery import troubles
from bench.recovery.gold import Gold, constants, order_only
from bench.recovery.task import (
    Again,
    Case,
    LookUp,
    MissingSteps,
    Order,
    Parameters,
    Person,
    Remedy,
    Substitute,
    Wanted,
)
from bench.recovery.world import LOOK_UP_SPEC, Trouble, World
from replan.core.data.schemas import parameter_problems
from replan.core.ids import call_content
from replan.core.types import Category, JsonObject, ToolSpec
from replan.errors import ToolCallError

TIMEOUT_SECS = 5.0
HANG_SECS = 60.0
PACE_SECS = 5.0
NO_FAULT = "no fault"
Draw = random.Random


def world_of(
    good: Sequence[Wanted],
    tools: Sequence[ToolSpec],
    trouble: Callable[[], Trouble] = Trouble,
    stands_for: Mapping[str, str] | None = None,
    refusals: Mapping[str, BaseException] | None = None,
) -> World:
    """A world in which these steps are the right ones."""
    real = stands_for or {}
    calls = [(real.get(one.tool, one.tool), one.resolved) for one in good]
    contents = [call_content(*call) for call in calls]
    return World(
        answers={content: one.output for content, one in zip(contents, good, strict=True)},
        wanted=Counter(contents),
        specs={spec.id: spec for spec in tools},
        right=calls,
        trouble=trouble(),
        stands_for=real,
        refusals=refusals or {},
    )


def inject(gold: Gold, kind: str, seed: int) -> Case | None:
    """The task with such a fault; None where the plan has no place for one."""
    return KINDS[kind](gold, kind, random.Random(f"{seed} {gold.name} {kind}"))


def _case(
    gold: Gold,
    kind: str,
    cause: Category,
    remedy: Remedy,
    *,
    good: Sequence[Wanted] | None = None,
    planned: Sequence[JsonObject] | None = None,
    tools: Sequence[ToolSpec] | None = None,
    trouble: Callable[[], Trouble] = Trouble,
    stands_for: Mapping[str, str] | None = None,
    ask: str = "",
    forced: int = 1,
) -> Case:
    right = tuple(gold.steps if good is None else good)
    specs = tuple(gold.tools if tools is None else tools)
    return Case(
        name=f"{gold.name} {kind}",
        group=gold.collection,
        kind=kind,
        text=gold.text,
        tools=specs,
        good=right,
        planned=tuple(planned if planned is not None else (one.step() for one in right)),
        make_world=partial(world_of, right, specs, trouble, stands_for),
        cause=cause,
        remedy=remedy,
        ask=ask,
        forced=forced,
    )


def _with(steps: Sequence[JsonObject], step_id: str, **fields: Any) -> list[JsonObject]:
    return [{**step, **fields} if step["step_id"] == step_id else step for step in steps]


def no_fault(gold: Gold, kind: str, draw: Draw) -> Case | None:
    """What a task costs by itself."""
    return _case(gold, kind, "unknown", Parameters(), forced=0)


# ── parameters ────────────────────────────────────────────────────────────────


def bad_parameter(gold: Gold, kind: str, draw: Draw) -> Case | None:
    """A constant is wrong, and only the tool notices."""
    taken = {call_content(one.tool, one.resolved) for one in gold.steps}
    places = [
        (step, name, wrong)
        for step in gold.steps
        for name in constants(step)
        if (wrong := spoilt(step.parameters[name])) is not None
        and not parameter_problems(gold.spec(step.tool), {**step.resolved, name: wrong})
        and call_content(step.tool, {**step.resolved, name: wrong}) not in taken
    ]
    if not places:
        return None
    step, name, wrong = draw.choice(places)
    planned = _with(
        [one.step() for one in gold.steps], step.step_id, parameters={**step.parameters, name: wrong}
    )
    return _case(gold, kind, "parameter_error", Parameters(), planned=planned)


def spoilt(value: Any) -> Any:
    """A value of the same type that is not the same; None where there is none."""
    match value:
        case bool():
            return None
        case int() | float():
            return value + 17
        case str() if value:
            return f"{value}x"
        case _:
            return None


def missing_parameter(gold: Gold, kind: str, draw: Draw) -> Case | None:
    """The tool wants a parameter that its schema does not call required, and the plan leaves it out."""
    places = [
        (step, name)
        for step in gold.steps
        for name in constants(step)
        if name in gold.spec(step.tool).parameters.get("required", ())
    ]
    if not places:
        return None
    step, name = draw.choice(places)
    planned = _with(
        [one.step() for one in gold.steps],
        step.step_id,
        parameters={key: value for key, value in step.parameters.items() if key != name},
    )
    tools = [_without_required(spec, name) if spec.id == step.tool else spec for spec in gold.tools]
    return _case(gold, kind, "parameter_error", Parameters(), planned=planned, tools=tools)


def _without_required(spec: ToolSpec, name: str) -> ToolSpec:
    required = [one for one in spec.parameters["required"] if one != name]
    return spec.model_copy(update={"parameters": {**spec.parameters, "required": required}})


# ── tools ─────────────────────────────────────────────────────────────────────


def _refused() -> BaseException:
    return ConnectionRefusedError("connection refused")


def _unavailable() -> BaseException:
    return ToolCallError("503 Service Unavailable", kind="http", status=503, happened="no")


def _read_only() -> BaseException:
    return ToolCallError("403 this connection may only read", kind="http", status=403)


def _expired() -> BaseException:
    return ToolCallError("401 the access token has expired", kind="http", status=401)


def _dead_error(spec: ToolSpec) -> Callable[[], BaseException]:
    return _unavailable if spec.effect == "reads" else _refused


def _stand_in(spec: ToolSpec, name: str) -> ToolSpec:
    text = f"{spec.description} (through another provider)"
    return spec.model_copy(update={"id": name, "name": name, "description": text, "source": "other"})


def _replaced(gold: Gold, kind: str, spec: ToolSpec, error: Callable[[], BaseException]) -> Case:
    name = f"{spec.id}_via_other"
    good = [replace(one, tool=name) if one.tool == spec.id else one for one in gold.steps]
    return _case(
        gold, kind, "external_error", Substitute(name),
        good=good,
        planned=[one.step() for one in gold.steps],
        tools=[*gold.tools, _stand_in(spec, name)],
        trouble=partial(troubles.Dead, spec.id, error),
        stands_for={name: spec.id},
        forced=sum(one.tool == spec.id for one in gold.steps),
    )  # fmt: skip


def dead_with_substitute(gold: Gold, kind: str, draw: Draw) -> Case | None:
    spec = gold.spec(draw.choice(gold.steps).tool)
    return _replaced(gold, kind, spec, _dead_error(spec))


def read_only(gold: Gold, kind: str, draw: Draw) -> Case | None:
    """A tool that should have an effect has only the right to read; another one may write."""
    writing = [one for one in gold.steps if gold.spec(one.tool).effect != "reads"]
    return _replaced(gold, kind, gold.spec(draw.choice(writing).tool), _read_only) if writing else None


def dead_for_good(gold: Gold, kind: str, draw: Draw) -> Case | None:
    spec = gold.spec(draw.choice(gold.steps).tool)
    ask = f"start {spec.id} again, or give another tool for it"
    trouble = partial(troubles.Dead, spec.id, _dead_error(spec))
    return _case(gold, kind, "external_error", Person(), trouble=trouble, ask=ask)


def expired_token(gold: Gold, kind: str, draw: Draw) -> Case | None:
    spec = gold.spec(draw.choice(gold.steps).tool)
    ask = f"renew the access token of {spec.id}"
    trouble = partial(troubles.Dead, spec.id, _expired)
    return _case(gold, kind, "external_error", Person(), trouble=trouble, ask=ask)


def rate_limit(gold: Gold, kind: str, draw: Draw) -> Case | None:
    step = draw.choice(gold.steps)
    trouble = partial(troubles.Paced, step.tool, PACE_SECS)
    return _case(gold, kind, "external_error", Again(), trouble=trouble)


# ── calls of which nobody knows ───────────────────────────────────────────────


def timeout(gold: Gold, kind: str, draw: Draw) -> Case | None:
    """A call hangs before it has done anything, and is given up."""
    step = draw.choice(gold.steps)
    content = call_content(step.tool, step.resolved)
    reads = gold.spec(step.tool).effect == "reads"
    tools = [
        spec.model_copy(update={"timeout_secs": TIMEOUT_SECS}) if spec.id == step.tool else spec
        for spec in gold.tools
    ]
    return _case(
        gold, kind, "external_error", Again() if reads else LookUp(),
        tools=[*tools, LOOK_UP_SPEC],
        trouble=partial(troubles.Hangs, content, HANG_SECS),
    )  # fmt: skip


def cut_off(gold: Gold, kind: str, draw: Draw) -> Case | None:
    """A call takes effect, and its answer gets lost."""
    writing = [one for one in gold.steps if gold.spec(one.tool).effect != "reads"]
    if not writing:
        return None
    step = draw.choice(writing)
    trouble = partial(troubles.Cut, call_content(step.tool, step.resolved))
    return _case(
        gold, kind, "external_error", LookUp(), tools=[*gold.tools, LOOK_UP_SPEC], trouble=trouble, forced=0
    )


# ── plans ─────────────────────────────────────────────────────────────────────


def _not_yet(first: Wanted, after: Wanted) -> Callable[[], Trouble]:
    content = call_content(first.tool, first.resolved)
    text = f"{after.tool} cannot be done: {first.tool} has to be done before it"
    return partial(troubles.Needs, frozenset({content}), {call_content(after.tool, after.resolved): text})


def _pairs(gold: Gold) -> list[tuple[Wanted, Wanted]]:
    return [
        (first, after)
        for first, after in order_only(gold.steps)
        if call_content(first.tool, first.resolved) != call_content(after.tool, after.resolved)
        and not (first.repeat or after.repeat)
    ]


def missing_step(gold: Gold, kind: str, draw: Draw) -> Case | None:
    """The plan leaves out a step whose effect another one needs."""
    names = {one.step_id for one in gold.steps}
    places = [
        (first, after)
        for first, after in _pairs(gold)
        if not any(first.step_id in str(one.parameters) for one in gold.steps)
    ]
    if not places or len(names) < 2:
        return None
    first, after = draw.choice(places)
    planned = [one.step(known=sorted(names - {first.step_id})) for one in gold.steps if one is not first]
    return _case(
        gold, kind, "decomposition_error", MissingSteps(), planned=planned, trouble=_not_yet(first, after)
    )


def wrong_order(gold: Gold, kind: str, draw: Draw) -> Case | None:
    """Two steps stand in the wrong order."""
    places = _pairs(gold)
    if not places:
        return None
    first, after = draw.choice(places)
    planned = [one.step() for one in gold.steps]
    wanted = [need for need in after.needs if need != first.step_id]
    planned = _with(planned, after.step_id, dependencies=wanted)
    planned = _with(planned, first.step_id, dependencies=[*first.needs, after.step_id])
    remedy = Order(first.step_id, after.step_id)
    return _case(gold, kind, "decomposition_error", remedy, planned=planned, trouble=_not_yet(first, after))


KINDS: Mapping[str, Callable[[Gold, str, Draw], Case | None]] = {
    NO_FAULT: no_fault,
    "bad parameter": bad_parameter,
    "missing parameter": missing_parameter,
    "dead tool, substitute": dead_with_substitute,
    "dead tool, none": dead_for_good,
    "rate limit": rate_limit,
    "expired token": expired_token,
    "read-only tool": read_only,
    "timeout": timeout,
    "fails after its effect": cut_off,
    "missing step": missing_step,
    "wrong order": wrong_order,
}
