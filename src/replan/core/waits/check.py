"""Whether a planned wait can wait: what it asks again and again, and the condition that it asks about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from replan.core.data import schemas
from replan.core.references.conditions import roots
from replan.core.references.paths import check_path
from replan.core.references.refs import has_references
from replan.core.references.scopes import Lacking, Meant, Outputs, Place, Stray, findings
from replan.core.secrets import takes_secrets
from replan.core.types import JsonObject, ToolSpec
from replan.core.waits.condition import condition_with_values
from replan.core.waits.moments import limit_problem, misread
from replan.core.waits.questions import question_problems


def wait_violations(
    resolve: Callable[[str], ToolSpec | None],
    nearest: Callable[[str], Sequence[str]],
    where: str,
    tool: ToolSpec,
    given: JsonObject,
    meant: Meant,
) -> Iterator[str]:
    """What is wrong with a wait, beyond its parameters' schema. `where`: what to call it; `meant`: what of the plan a name in its condition may mean."""
    if too_long := limit_problem(given):
        yield f"{where}: {too_long}"
    if tool.waits == "time":
        if given.keys().isdisjoint(("seconds", "until")) or {"seconds", "until"} <= given.keys():
            yield f"{where}: give seconds or until, one of the two"
        elif wrong := misread(given):
            yield f"{where}: {wrong}"
    elif tool.waits == "question":
        yield from (f"{where}: {wrong}" for wrong in question_problems(given))
    elif tool.waits == "condition":
        yield from _of_condition(resolve, nearest, where, given, meant)


def _of_condition(
    resolve: Callable[[str], ToolSpec | None],
    nearest: Callable[[str], Sequence[str]],
    where: str,
    given: JsonObject,
    meant: Meant,
) -> Iterator[str]:
    name, condition = given.get("tool"), given.get("condition")
    if isinstance(condition, str):
        shape = condition_with_values(condition, lambda _: None) if has_references(condition) else condition
        if problem := check_path(shape):
            yield f"{where}: condition: {problem}"
        elif others := [root for root, _ in roots(shape) if root not in ("output", "outputs")]:
            yield f"{where}: condition: {others[0]!r} is not there; what was read is `output`, as in output.status == 'done'"
        else:
            reader = resolve(name) if isinstance(name, str) and not has_references(name) else None
            for text in _inside(shape, reader, meant):
                yield f"{where}: condition: {text}"
    if not isinstance(name, str):
        return  # the schema says so
    if has_references(name):
        yield f"{where}: tool: write the id of the tool itself, not a reference"
        return
    reader = resolve(name)
    if reader is None:
        near = ", ".join(nearest(name))
        yield f"{where}: the tool {name!r} does not exist; there are: {near or 'none'}"
        return
    if not reader.may_verify or reader.waits:
        yield (
            f"{where}: {reader.id!r} is not called again and again: only a tool that reads, and needs no person's yes, is"
        )
    elif takes_secrets(reader):
        yield f"{where}: {reader.id!r} takes secrets, and cannot be asked again and again"
    else:
        asked = given.get("parameters")
        parameters = asked if isinstance(asked, dict) else {}
        if not has_references(parameters):
            for problem in schemas.parameter_problems(reader, parameters)[:5]:
                yield f"{where}: parameters of {reader.id!r}: {problem}"


def _inside(condition: str, reader: ToolSpec | None, meant: Meant) -> Iterator[str]:
    """The names in its filters and projections that are not what they look like."""

    also, start = also_what_was_read(meant), reading_begins(reader)
    for one in findings(condition, start, also)[0]:
        if isinstance(one, Lacking):
            yield one.say("what was read")
        elif isinstance(one, Stray):
            yield one.say(has_value=one.chain[0] not in _READ)


_READ = ("output", "outputs")


def also_what_was_read(meant: Meant) -> Meant:
    """What a name in the condition of a wait may mean, which looks at `output`."""
    return lambda chain: "what was read" if chain[0] in _READ else meant(chain)


def reading_begins(reader: ToolSpec | None) -> Place:
    """What the condition of a wait looks into."""
    schema = reader.output_schema if reader is not None else None
    return Outputs(lambda names: schema if names in (("output",), ("outputs",)) else None)
