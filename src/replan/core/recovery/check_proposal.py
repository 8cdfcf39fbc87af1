"""What a proposal about a failed step has to be (specification §6, the four rules): the model proposes, code disposes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from replan.core.calls.claims import unclaimed
from replan.core.calls.names import bases
from replan.core.calls.site import Slot
from replan.core.calls.verify import Found, scalars
from replan.core.data import schemas
from replan.core.data.nothing import is_nothing
from replan.core.failures.signature import texts_in
from replan.core.plan.placeholders import Stands, placeholders
from replan.core.recovery.evidence import Sign, opened, quoted, signs_of, sure
from replan.core.recovery.substitutes import EFFECT_WORDS
from replan.core.references.paths import static_steps
from replan.core.references.refs import has_references
from replan.core.reflection import ActionType, StepReflection, SuggestedAction
from replan.core.state.step_recovery import Healing, Reading
from replan.core.types import Category, Effect, JsonObject, StepId, ToolId, ToolSpec

FITTING: Mapping[Category, frozenset[ActionType]] = {
    "parameter_error": frozenset({"retry_with_params", "repair_step"}),
    "tool_error": frozenset({"retry_with_tool", "repair_step"}),
    "decomposition_error": frozenset({"retry_with_tool", "repair_step"}),
    "dependency_error": frozenset({"retry_with_tool", "repair_step"}),
    "server_error": frozenset({"retry_with_tool"}),
    "external_error": frozenset({"retry_with_tool"}),
    "unknown": frozenset({"retry_with_params", "retry_with_tool", "repair_step"}),
}
"""Which remedies fit a cause; `replan` and `trigger_overall_reflection` fit every one."""
UNRECOVERABLE: frozenset[Category] = frozenset({"server_error", "external_error"})


def _nothing_known(text: str) -> bool:
    return False


def _nowhere(tool: ToolSpec, parameters: JsonObject) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed call, and what a proposal about it is checked against."""

    task_id: str
    step_id: StepId
    slot: Slot
    tool: ToolSpec | None
    """None: it does not exist."""
    parameters: JsonObject
    """As resolved; as planned where references could not be."""
    allowed: Sequence[ActionType]
    healing: Healing
    available: Mapping[ToolId, ToolSpec]
    """What may be used instead."""
    planned: JsonObject = field(default_factory=dict)
    """The step's parameters as resolved for a call of the planned tool, before anything was changed."""
    in_doubt: bool = False
    wanted: JsonObject | None = None
    """What an output of the tool has to look like, where it is declared."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What fills in required parameters that are left out."""
    elsewhere: Collection[str] = ()
    """Values that other calls of the tool were made with."""
    may: Effect | None = None
    """The effect of what was planned: no stand-in has a stronger one. None: nothing is known of it."""
    key: str = ""
    """Of the call in doubt."""
    since: float | None = None
    """When it was first made."""
    seal_key: bytes = b""
    """Of the names of calls that have secrets (`core.calls.names`)."""
    claims: Collection[str] = ()
    """Records that have settled other calls."""
    given: Sequence[Any] = ()
    """What the very same calls have given that succeeded by themselves."""
    others: Sequence[tuple[JsonObject, Any]] = ()
    """Other calls of the tool that succeeded by themselves: what they were made with, and have given."""
    references: Sequence[str] = ()
    """Paths into the output that other steps refer to."""
    made_elsewhere: Callable[[ToolSpec, JsonObject], str] = _nowhere
    """Which other place of the plan makes a call, or is to make it, in words; empty if none does."""
    stands: Stands = _nothing_known
    """Whether a text stands in what the task has to go by."""


def violations(proposal: StepReflection, failed: Failed) -> list[str]:
    """Everything that is wrong with the proposal, in words that help to mend it."""
    action = proposal.suggested_action
    if action.type not in failed.allowed:
        return [f"{action.type} is not open any more; open are: {', '.join(failed.allowed)}"]
    if failed.in_doubt:
        return list(_of_doubt(action, failed))
    return [*_fit(proposal, failed), *_complete(action, failed)]


def _fit(proposal: StepReflection, failed: Failed) -> Iterator[str]:
    """Rule 1: the remedy goes with the cause. (Rule 2, `is_recoverable`, is derived from the cause where it is read.)"""
    category, action = proposal.root_cause_category, proposal.suggested_action
    everywhere = ("replan", "trigger_overall_reflection")
    if action.type not in FITTING[category] and action.type not in everywhere:
        fitting = [name for name in failed.allowed if name in FITTING[category] or name in everywhere]
        yield f"{action.type} does not go with {category}; with it go: {', '.join(fitting)}"
    elif category in UNRECOVERABLE and action.type == "retry_with_tool":
        other = failed.available.get(str(action.data.get("tool_id")))
        if (
            other is not None
            and not other.in_process
            and failed.tool is not None
            and other.source == failed.tool.source
            and failed.tool.source
        ):
            yield (
                f"{other.id!r} comes from the same source as {failed.tool.id!r}, which is out of reach; "
                "trigger_overall_reflection, or take a tool from another source"
            )


def _complete(action: SuggestedAction, failed: Failed) -> Iterator[str]:
    """Rules 3 and 4: the data can be used as they are, and are new."""
    if action.type == "retry_with_params":
        yield from _of_parameters(action.data, failed)
    elif action.type == "retry_with_tool":
        yield from _of_tool(action.data, failed)


def _of_parameters(data: JsonObject, failed: Failed) -> Iterator[str]:
    tool = failed.tool
    if not data:
        yield "data is empty: give at least one parameter with a concrete value"
        return
    if tool is None:
        yield "the tool does not exist, so other parameters do not help; take another tool"
        return
    yield from _not_values(data, tool, failed)
    known = tool.parameters.get("properties")
    if isinstance(known, dict) and known and not tool.parameters.get("additionalProperties"):
        strange = [name for name in data if name not in known]
        if strange:
            yield f"{tool.id!r} has no parameter {', '.join(map(repr, strange))}; it has: {', '.join(known)}"
            return
    yield from _of_call(tool, {**failed.parameters, **data}, failed)


def _of_tool(data: JsonObject, failed: Failed) -> Iterator[str]:
    name = str(data.get("tool_id") or "")
    other = failed.available.get(name)
    if other is None:
        near = ", ".join(list(failed.available)[:20]) or "none"
        yield f"the tool {name!r} does not exist or may not be used; there are: {near}"
        return
    limit = failed.may or (failed.tool.effect if failed.tool is not None else "reads")
    if other.is_stronger_than(limit):
        yield (
            f"{other.id!r} {EFFECT_WORDS[other.effect]}, and what it would stand in for {EFFECT_WORDS[limit]}: a stand-in "
            "may not do more; name a tool that does no more, or propose another remedy"
        )
        return
    given = data.get("parameters")
    if given is not None and not isinstance(given, dict):
        yield "parameters has to be an object"
        return
    if isinstance(given, dict):
        yield from _not_values(given, other, failed)
    merged = given if isinstance(given, dict) else mapped(failed.planned or failed.parameters, other)
    if failed.tool is not None and other.id == failed.tool.id and given is None:
        yield f"{other.id!r} is the tool that failed; name another one"
        return
    if other.id in failed.healing.tools_tried(failed.slot) and not (
        failed.tool and other.id == failed.tool.id
    ):
        yield f"{other.id!r} was tried for this step already and failed; name one that was not"
        return
    yield from _of_call(other, merged, failed)
    yield from _of_references(other, failed)


def _of_call(tool: ToolSpec, parameters: JsonObject, failed: Failed) -> Iterator[str]:
    """The call as it would be made: it fits the schema, and was not tried before."""
    required = tool.parameters.get("required", ())
    filled = {
        name: failed.metadata[name] for name in required if name in failed.metadata and name not in parameters
    }
    parameters = {**parameters, **filled}
    for problem in schemas.parameter_problems(tool, parameters)[:10]:
        yield f"tool {tool.id!r}: {problem}"
    if not failed.healing.tried().isdisjoint(bases(failed.seal_key, failed.task_id, tool, parameters)):
        yield f"this very call of {tool.id!r} was tried for this step already and failed; propose something new"
    if place := failed.made_elsewhere(tool, parameters):
        yield (
            f"{place} makes this very call of {tool.id!r} already, or is to make it, and its effect does not stand for two: "
            "propose something else"
        )


def _of_references(other: ToolSpec, failed: Failed) -> Iterator[str]:
    """What later steps take from the output has to be in the other tool's, where that is declared."""
    if other.output_schema is None:
        return
    for path in failed.references:
        try:
            schemas.schema_at(other.output_schema, _steps_of(path))
        except schemas.PathUnknown as error:
            if error.is_open:
                continue
            yield f"later steps refer to {path!r} in the output, which {other.id!r} does not give; repair_step, or another tool"


def _steps_of(path: str) -> list[str | int]:
    return (static_steps(path) or []) if path else []


def mapped(parameters: JsonObject, tool: ToolSpec) -> JsonObject:
    """The parameters that the other tool has too, by name."""
    known = tool.parameters.get("properties")
    if not isinstance(known, dict) or not known or tool.parameters.get("additionalProperties"):
        return dict(parameters)  # it takes what it is given
    return {name: value for name, value in parameters.items() if name in known}


# ── calls in doubt ────────────────────────────────────────────────────────────


def _of_doubt(action: SuggestedAction, failed: Failed) -> Iterator[str]:
    if action.type == "verify_outcome":
        name = str(action.data.get("tool_id") or "")
        reader = failed.available.get(name)
        if reader is None or not reader.may_verify:
            readers = ", ".join(tool.id for tool in failed.available.values() if tool.may_verify)
            yield f"{name!r} is no tool that only reads, with nobody asked; there are: {readers or 'none'}"
            return
        given = action.data.get("parameters", {})
        if not isinstance(given, dict):
            yield "parameters has to be an object"
            return
        yield from _not_values(given, reader, failed)
        for problem in schemas.parameter_problems(reader, given)[:10]:
            yield f"tool {reader.id!r}: {problem}"
        gave = [(one.output, one.error) for one in failed.healing.alike(failed.slot, reader.id, given)]
        if gave[-2:-1] == gave[-1:] != []:
            yield f"this very reading of {reader.id!r} was made twice, and gave the same; read something else, or say what it shows"
    elif action.type == "settle_outcome":
        yield from _of_settlement(action, failed, failed.healing.shown(failed.slot))


def _of_settlement(action: SuggestedAction, failed: Failed, shown: Sequence[Reading]) -> Iterator[str]:
    happened = action.data.get("happened")
    if not isinstance(happened, bool):
        yield "happened has to be true or false"
        return
    if not happened and (seen := _shows(shown, failed.parameters, failed.elsewhere)):
        yield (
            f"a reading shows {seen!r}, which the call was made with: that speaks for its having happened; "
            "trigger_overall_reflection if it cannot be told"
        )
    if happened and all(is_nothing(opened(reading.output)) for reading in shown):
        yield "every reading came back empty: that does not show that it happened"
    elif happened and not (
        signs := signs_of(shown, failed.key, failed.parameters, failed.elsewhere, failed.since)
    ):
        yield (
            "no reading shows this very call, by values of its parameters that tell it from others: the readings show other "
            "calls of this kind, and none with these parameters, or nothing of it; trigger_overall_reflection if it cannot be told"
        )
    elif happened and not (mine := quoted(signs, str(action.data.get("evidence") or ""))):
        yield (
            f"the evidence does not identify this call: quote what shows it, with {', '.join(signs[0].values[:3])}"
        )
    elif happened and not (good := sure(mine)):
        yield (
            f"the record that is quoted is no proof that it happened: {mine[0].objection}; read again where that may have "
            "changed, or trigger_overall_reflection: a person looks"
        )
    elif happened and not free_records(
        good, shown, failed.parameters, failed.claims, failed.given, failed.others
    ):
        yield (
            "what is quoted has settled another call already, or is what another call has given, and one record settles one "
            "call only; trigger_overall_reflection if it cannot be told"
        )
    if happened and (unread := _unread(action.data.get("output"), shown, failed.parameters)):
        yield (
            f"output has {unread!r}, which stands in no reading: give what the readings show, or leave output out: then it is "
            "the record that is quoted"
        )
    if happened and failed.wanted is not None:
        output = settled_output(action, shown, failed.wanted)
        for problem in schemas.problems(failed.wanted, output)[:5]:
            yield f"output has to be what {failed.tool.id if failed.tool else 'the tool'!r} gives: {problem}"


def free_records(
    signs: Iterable[Sign],
    readings: Sequence[Reading],
    parameters: JsonObject,
    claims: Collection[str],
    given: Sequence[Any],
    others: Sequence[tuple[JsonObject, Any]],
) -> list[Found]:
    """The records that speak for no other call: none has settled one, is what one has given, or may as well be one's."""
    found = [
        sign.found
        for sign in signs
        if not any(_is_of(sign.found.output, output, parameters) for _, output in others)
    ]
    rivals = [
        output
        for made_with, output in others
        if {sign.found.record for sign in signs_of(readings, "", made_with)} & {one.record for one in found}
    ]
    return unclaimed(found, claims, [*given, *rivals])


def _is_of(record: Any, given: Any, parameters: JsonObject) -> bool:
    """True if the record is what another call has given: all that both have is the same, and more than what this one was asked with."""
    if not isinstance(record, dict) or not isinstance(given, dict):
        return bool(record == given)
    both = record.keys() & given.keys()
    mine = set(scalars(parameters))
    return all(record[name] == given[name] for name in both) and any(
        not set(scalars(record[name])) <= mine for name in both
    )


def _unread(output: Any, readings: Sequence[Reading], parameters: JsonObject) -> str:
    """A value of the output that stands neither in a reading nor in the call; empty if all do."""
    told = [value for value in scalars(output) if value]
    if not told:
        return ""
    known = scalars([opened(reading.output) for reading in readings]) + scalars(parameters)
    known += scalars([opened(text) for text in known if text[:1] in '{["'])  # JSON in a text
    numbers = {number for one in known if (number := _as_number(one)) is not None}
    return next(
        (
            value
            for value in told
            if _as_number(value) not in numbers and not any(_stands(value, one) for one in known)
        ),
        "",
    )


def _stands(value: str, text: str) -> bool:
    return value in text and bool(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text))


def _as_number(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def settled_output(
    action: SuggestedAction, readings: Sequence[Reading], wanted: JsonObject | None = None, record: Any = None
) -> Any:
    """What stands for the output of a call that has happened: as told, else the record that is quoted, or the latest reading, if
    that fits."""
    if action.data.get("output") is not None:
        return action.data["output"]
    if record is not None and (wanted is None or not schemas.problems(wanted, record)):
        return record
    values = [opened(reading.output) for reading in reversed(readings) if reading.output]
    fitting = (value for value in values if wanted is None or not schemas.problems(wanted, value))
    return next(fitting, values[0] if values else None)


_TELLING = 4
"""Characters from which on a text tells one call from another."""


def _shows(readings: Sequence[Reading], parameters: JsonObject, elsewhere: Collection[str]) -> str:
    """A telling value of the call that some reading holds; empty if none.

    What the reading was asked with, and what other calls were made with too, tells nothing.
    """
    for value in texts_in(parameters):
        if len(value) >= _TELLING and value not in elsewhere:
            for reading in readings:
                asked = set(texts_in(reading.parameters))
                if value in reading.output and value not in asked:
                    return value
    for reading in readings:
        telling = {name: value for name, value in parameters.items() if reading.parameters.get(name) != value}
        if telling:  # some object holds the whole call, whatever its values are
            for one in _objects(opened(reading.output)):
                if all(name in one and one[name] == value for name, value in telling.items()):
                    return str(next(iter(telling.values())))
        elif not is_nothing(
            opened(reading.output)
        ):  # nothing to know the call by: only an empty reading speaks against it
            return reading.output[:60]
    return ""


def _objects(value: Any) -> Iterator[JsonObject]:
    """Every object in the value, at any depth."""
    nodes = [value]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            yield node
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)


# ── values that are none ──────────────────────────────────────────────────────


def _not_values(data: JsonObject, tool: ToolSpec, failed: Failed) -> Iterator[str]:
    """Values that stand for one, in place of one."""
    required = tool.parameters.get("required", ())
    properties = tool.parameters.get("properties")
    for name, value in data.items():
        schema = properties.get(name) if isinstance(properties, dict) else None
        if value is None and name in required and not _may_be_null(schema):
            yield f"{name} is required and cannot be null: give a concrete value"
        for text in texts_in(value):
            if has_references(text):
                yield f"{name}: {text[:60]!r} is a reference; give the value itself"
    for place, piece in placeholders(tool, data, failed.stands):
        yield (
            f"{place}: {piece[:60]!r} is a placeholder, not a value; give a concrete value, or propose another remedy"
        )


def _may_be_null(schema: Any) -> bool:
    return not isinstance(schema, dict) or not schemas.problems(schema, None)
