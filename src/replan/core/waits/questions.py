"""What a step asks a person: which answers fit, how an answer in words is read, and what would be right in place of one that does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from replan.core.data import schemas
from replan.core.data.schema.parts import TooDeep, parts
from replan.core.data.strict_json import NotStorable, read_strictly
from replan.core.data.validation import schema_problem, unheld
from replan.core.ids import canonical
from replan.core.references.refs import has_references
from replan.core.secrets import may_say_secret
from replan.core.types import JsonObject
from replan.core.words import YES_NO, beginning, in_digits, some

_TEXT: JsonObject = {"type": "string", "minLength": 1}
KINDS: dict[str, JsonObject] = {
    "text": _TEXT,
    "number": {"type": "number"},
    "yes/no": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
}
"""The schemas of plain answers, by what a plan calls them."""
FORMS = ("choices", "schema", "kind")
"""The parameters that say which answers fit: one of them, or none for a text."""
_TRUTH, _WORDS, _NUMBERS = frozenset({"boolean"}), frozenset({"string"}), frozenset({"number", "integer"})
_REFERS = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
MOST_BYTES = 100_000
"""Of an answer, as JSON."""
_MOST_SCHEMA = 8_000
"""Characters of the JSON of a schema of answers."""
_MOST_CHOICE = 1_000
"""Characters of one choice."""
_SHOWN = 20
"""Choices that are told in a message."""


def answer_schema(parameters: JsonObject) -> JsonObject:
    """What an answer to the question has to fit."""
    if (choices := parameters.get("choices")) is not None:
        return {"enum": list({canonical(one): one for one in choices}.values())}
    if (schema := parameters.get("schema")) is not None:
        return dict(schema)
    return KINDS[parameters.get("kind") or "text"]


def planned_schema(parameters: JsonObject) -> JsonObject | None:
    """The same of a question in a plan; None: it is known only once references have been read."""
    if any(has_references(parameters.get(name)) for name in FORMS):
        return None
    try:
        return answer_schema(parameters)
    except (KeyError, TypeError, ValueError):
        return None  # it does not fit its own schema, which is said of it


def question_problems(parameters: JsonObject, *, whole: bool = False) -> Iterator[str]:
    """What is wrong with a question, beyond the schema of its parameters. `whole`: its references are filled in."""
    given = [name for name in FORMS if parameters.get(name) is not None]
    if len(given) > 1:
        yield f"give one of {', '.join(FORMS)}, not {' and '.join(given)}: each says which answers fit"
    question = parameters.get("question")
    if isinstance(question, str) and question and not question.strip():
        yield "question: it is nothing but blanks"
    choices = parameters.get("choices")
    if isinstance(choices, list) and any(len(_shown(one)) > _MOST_CHOICE for one in choices):
        yield f"choices: one has more than {in_digits(_MOST_CHOICE)} characters: name each in few words"
    schema = parameters.get("schema")
    if not isinstance(schema, dict) or not (whole or not has_references(schema)):
        return
    if problem := _unusable(schema):
        yield f"schema: {problem}"


def _unusable(schema: JsonObject) -> str:
    """Why no answer can be asked for by this schema; empty if one can."""
    if len(json.dumps(schema, default=str)) > _MOST_SCHEMA:
        return f"it has more than {in_digits(_MOST_SCHEMA)} characters: ask for less, or in several questions"
    try:
        words = {word for _, part in parts(schema) for word in part}
    except TooDeep:
        return "it is nested too deep"
    if words & _REFERS:
        return "write it out, without $ref: what refers to itself can take for ever to hold an answer against"
    if problem := schema_problem(schema) or unheld(schema):
        return problem
    return (
        "it asks for a secret, which no answer may hold: secrets are given with the task"
        if may_say_secret(schema)
        else ""
    )


def read_answer(schema: JsonObject, text: str) -> Any:
    """What was said in words, as the value that is asked for; `ValueError` says what would be right."""
    said = text.strip()
    if isinstance(choices := schema.get("enum"), list):
        return _chosen(schema, choices, said)
    types = schemas.types_of(schema)
    value: Any = text
    if types == _TRUTH:
        value = YES_NO.get(said.rstrip(".!").casefold(), text)
    elif types == _WORDS:
        value = said if "format" in schema else text
    else:
        try:
            value = read_strictly(said.encode())
        except (ValueError, RecursionError):
            pass  # a text, where one fits
        else:
            if types is not None and "string" in types and answer_problem(schema, value):
                value = text
    if problem := answer_problem(schema, value):
        raise ValueError(problem)
    return value


def _chosen(schema: JsonObject, choices: list[Any], said: str) -> Any:
    """One of the choices: as it is written, or in other letters where that is one alone."""
    for form in (str, str.casefold):
        found = [one for one in choices if form(_shown(one)) == form(said)]
        if len(found) == 1:
            return found[0]
    if (number := _number(said)) is not None:
        found = [one for one in choices if _is_number(one) and one == number]
        if found:
            return found[0]
    raise ValueError(_does_not_fit(schema, said, ""))


def _number(said: str) -> float | None:
    """The number that is meant, however it is written (`2.50`)."""
    try:
        value = read_strictly(said.encode())
    except (ValueError, RecursionError):
        return None
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def answer_problem(schema: JsonObject, value: Any) -> str:
    """Why a value is no answer, with what would be right; empty if it is one."""
    try:
        found = schemas.problems(schema, value, formats=True)
    except (NotStorable, RecursionError):
        found = ["it is no JSON"]
    return _does_not_fit(schema, value, "; ".join(found[:5])) if found else ""


def _does_not_fit(schema: JsonObject, value: Any, why: str) -> str:
    because = f" ({why})" if why and schema.keys() & {"properties", "items", "allOf", "anyOf"} else ""
    return f"the answer {beginning(canonical(value), 100)} does not fit{because}: right is {right_answer(schema)}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def right_answer(schema: JsonObject) -> str:
    """Which answers fit, for people."""
    if isinstance(choices := schema.get("enum"), list):
        return f"one of {some([_shown(one) for one in choices], _SHOWN)}"
    if "const" in schema:
        return _shown(schema["const"])
    types = schemas.types_of(schema)
    if schema.get("format") == "date":
        return "a date, as 2026-03-01"
    if types == _TRUTH:
        return "yes or no"
    if types is not None and types <= _NUMBERS:
        return f"a number, as {'12.5' if 'number' in types else '12'}{_bounds(schema)}"
    if types == _WORDS:
        return f"a text{_limits(schema)}"
    return f"JSON that fits {beginning(canonical(schema), 500)}"


def _bounds(schema: JsonObject) -> str:
    words = (("minimum", "at least"), ("maximum", "at most"))
    found = [f"{how} {canonical(schema[name])}" for name, how in words if name in schema]
    return f", {' and '.join(found)}" if found else ""


_EXAMPLES = {
    "date": "2026-03-01", "time": "08:00:00Z", "date-time": "2026-03-01T08:00:00Z", "duration": "P1DT2H", "email": "ann@example.org",
    "uri": "https://example.org/a", "uuid": "0f8fad5b-d9cb-469f-a165-70867728950e", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
    "hostname": "example.org",
}  # fmt: skip
"""Of forms in which texts may have to be."""


def _limits(schema: JsonObject) -> str:
    """What a text has to be beyond one."""
    said = schema.get("minLength", 0), schema.get("maxLength")
    found = [f"of at least {in_digits(said[0])} characters"] if said[0] > 1 else []
    found += [f"of at most {in_digits(said[1])} characters"] if said[1] is not None else []
    found += [f"that matches {beginning(schema['pattern'], 200)}"] if "pattern" in schema else []
    if "format" in schema:
        example = _EXAMPLES.get(str(schema["format"]))
        found += [f"in the form {schema['format']}" + (f", as {example}" if example else "")]
    return f" {' and '.join(found)}" if found else ""
