"""What a proposal about a call in doubt has to be: a reading that may tell, or what readings have shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from replan.core.calls.claims import unclaimed
from replan.core.calls.telling import what_is_done
from replan.core.calls.verify import Found
from replan.core.data import schemas
from replan.core.data.nothing import is_nothing
from replan.core.recovery.evidence import Sign, opened, quoted, signs_of, sure
from replan.core.recovery.failed import Failed, not_values
from replan.core.reflection import SuggestedAction
from replan.core.state.step_recovery import Reading
from replan.core.types import JsonObject
from replan.core.walk import objects_in, scalars, texts_in
from replan.core.words import text_of


def of_doubt(action: SuggestedAction, failed: Failed) -> Iterator[str]:
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
        yield from not_values(given, reader, failed)
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
    known_by = what_is_done(failed.tool, failed.parameters)
    if not happened and (seen := _shows(shown, known_by, failed.elsewhere)):
        yield (
            f"a reading shows {seen!r}, which the call was made with: that speaks for its having happened; "
            "trigger_overall_reflection if it cannot be told"
        )
    if happened and all(is_nothing(opened(reading.output)) for reading in shown):
        yield "every reading came back empty: that does not show that it happened"
    elif happened and not (signs := signs_of(shown, failed.key, known_by, failed.elsewhere, failed.since)):
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
    elif happened and not free_records(good, shown, known_by, failed.claims, failed.given, failed.others):
        yield (
            "what is quoted has settled another call already, or is what another call has given, and one record settles one "
            "call only; trigger_overall_reflection if it cannot be told"
        )
    if happened and (unread := _unread(action.data.get("output"), shown, failed.parameters)):
        yield (
            f"output has {unread!r}, which stands in no reading: give what the readings show, or {_LEFT_OUT}"
        )
    elif happened and (
        problem := _not_of(action.data.get("output"), quoted_of(action, failed, shown), shown)
    ):
        yield problem
    given = action.data.get("output")
    if happened and given is not None and failed.wanted is not None:
        for problem in schemas.problems(failed.wanted, given)[:5]:
            tool = repr(failed.tool.id) if failed.tool is not None else "the tool"
            yield f"output has to be what {tool} gives: {problem}; give all of it, as the readings show it, or {_LEFT_OUT}"


_LEFT_OUT = "leave output out: then it is the record that is quoted, where that is what the tool gives, and else nobody knows what the call gave"


def quoted_of(action: SuggestedAction, failed: Failed, shown: Sequence[Reading]) -> list[Any]:
    """The records that the evidence is about."""
    known_by = what_is_done(failed.tool, failed.parameters)
    signs = signs_of(shown, failed.key, known_by, failed.elsewhere, failed.since)
    return [one.found.output for one in quoted(signs, str(action.data.get("evidence") or ""))]


def _not_of(output: Any, records: Sequence[Any], readings: Sequence[Reading]) -> str:
    """Why the output is not that of a call which these records show; empty if it may be.

    What it has under a name of the record is what the record has there; what it has from another record is none of it, unless that one tells of
    this one.
    """
    if output is None or not records:
        return ""
    objects = [one for one in records if isinstance(one, dict)]
    if isinstance(output, dict) and objects:
        for name, value in output.items():
            there = [found[name] for one in objects for found in _every_object(one) if name in found]
            if there and not any(_is_the_same(value, one) for one in there):
                return f"output has {value!r} as {name!r}, and the record that is quoted has {text_of(there[0])}: {_LEFT_OUT}"
    mine = {value for one in records for value in [*scalars(one), *scalars(list(_every_object(one)))]}
    foreign = [
        one
        for reading in readings
        for one in objects_in(opened(reading.output))
        if one not in records and not any(isinstance(value, dict | list) for value in one.values())
    ]
    for value in scalars(output):
        holders = [one for one in foreign if value in scalars(one)]
        if value not in mine and holders and all(mine.isdisjoint(_telling_in(one)) for one in holders):
            return f"output has {value!r}, which another record has: give what the record that is quoted shows, or {_LEFT_OUT}"
    return ""


def _every_object(record: Any) -> Iterator[JsonObject]:
    """The objects of a record, those that stand in it as JSON in a text included."""
    for one in (record, *(opened(text) for text in texts_in(record) if text[:1] in "{[")):
        yield from objects_in(one)


def _telling_in(record: JsonObject) -> list[str]:
    return [value for value in scalars(record) if len(value) >= _TELLING]


def _is_the_same(one: Any, other: Any) -> bool:
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return bool(one == other)
    mine, theirs = _as_number(str(one)), _as_number(str(other))
    return bool(one == other) or str(one) == str(other) or (mine is not None and mine == theirs)


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


def settled_output(action: SuggestedAction, wanted: JsonObject | None, record: Any) -> Any:
    """What stands for the output of a call that has happened: as told, else the `record` that is quoted, where that is what the tool gives.
    None: that it happened is known, and not what it gave."""
    if action.data.get("output") is not None:
        return action.data["output"]
    return record if wanted is None or not schemas.problems(wanted, record) else None


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
            for one in objects_in(opened(reading.output)):
                if all(name in one and one[name] == value for name, value in telling.items()):
                    return str(next(iter(telling.values())))
        elif not is_nothing(
            opened(reading.output)
        ):  # nothing to know the call by: only an empty reading speaks against it
            return reading.output[:60]
    return ""
