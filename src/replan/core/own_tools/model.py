"""The tool by which a plan asks a model in its middle: what it takes, what is wrong with a planned call of it, and what that gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from replan.core.data.validation import schema_problem, unheld
from replan.core.references.refs import has_references, references
from replan.core.secrets import may_say_secret
from replan.core.types import JsonObject, ToolSpec
from replan.core.waits.tools import SOURCE
from replan.core.words import in_digits

MOST_INSTRUCTION = 20_000
MOST_SCHEMA = 20_000
MOST_INPUT = 400_000
"""Characters of what one call takes: about what the models of today read at once and still see."""

MODEL = ToolSpec(
    id="model",
    name="model",
    description=(
        "Have a model read the input and do with it what takes understanding: sum up, sort into classes, extract from prose, "
        "compare, translate, write a text from results. It knows nothing but instruction and input, looks nothing up, calls no tools "
        "and has no effect."
    ),
    parameters={
        "type": "object",
        "properties": {
            "instruction": {
                "type": "string",
                "minLength": 1,
                "maxLength": MOST_INSTRUCTION,
                "description": "what to do with the input, complete in itself, without references",
            },
            "input": {"description": "the material, by reference: ${step_1.output.text}, ${item}"},
            "schema": {
                "type": ["object", "null"],
                "description": "JSON Schema of the output; left out: a text",
            },
        },
        "required": ["instruction"],
        "additionalProperties": False,
    },
    effect="reads",
    source=SOURCE,
    stable=True,
    max_retries=0,  # whatever asks models tries again by itself
    asks_model=True,
)


def output_of(parameters: JsonObject) -> JsonObject | None:
    """The schema of what such a call gives; None where it cannot be told before its references are filled in."""
    schema = parameters.get("schema")
    if schema is None:
        return {"type": "string"}
    if not isinstance(schema, dict):
        return None
    known = _without_values(schema) if has_references(schema) else schema
    return None if has_references(known) or schema_problem(known) else known


def planned_violations(where: str, given: JsonObject) -> Iterator[str]:
    """What is wrong with a planned call, beyond its parameters' schema. `where`: what to call it."""
    instruction, schema = given.get("instruction"), given.get("schema")
    if found := [ref.raw for ref in references(instruction) if ref.head != "task"]:
        yield (
            f"{where}: instruction: {found[0]} is material, which would be taken for a part of the instruction; put it into `input`, "
            "and say in the instruction what it is (several as an object, by name)"
        )
    if isinstance(schema, str):
        yield f"{where}: schema: write the JSON Schema itself, as an object"
    elif isinstance(schema, dict):
        known = _without_values(schema) if has_references(schema) else schema
        if has_references(known):
            yield f"{where}: schema: write it out; a reference may only stand for an `enum` in it"
        elif problem := schema_fault(known):
            yield f"{where}: schema: {problem}"


def schema_fault(schema: JsonObject) -> str:
    """Why no answer can be held to it; empty if one can."""
    if problem := schema_problem(schema) or unheld(schema):
        return problem
    if _fits_nothing(schema):
        return "an enum in it has no values, so that no answer could fit"
    if may_say_secret(schema):
        return "it asks for a secret, and what a model says stands in the log: have a tool read it"
    size = len(json.dumps(schema, ensure_ascii=False))
    if size > MOST_SCHEMA:
        return f"it has {in_digits(size)} characters; at most {in_digits(MOST_SCHEMA)} are allowed"
    return ""


def _fits_nothing(schema: Any) -> bool:
    """True where a value, or what it has to have, is to be one of no values."""
    if not isinstance(schema, dict):
        return False
    properties, required = schema.get("properties"), schema.get("required")
    if schema.get("enum") == []:
        return True
    if not isinstance(properties, dict) or not isinstance(required, list) or schema.get("type") != "object":
        return False
    return any(_fits_nothing(properties.get(name)) for name in required)


def too_large(text: str) -> str:
    """Why a model is not given so much at once, and what to do; empty if it is."""
    if len(text) <= MOST_INPUT:
        return ""
    return (
        f"the input has {in_digits(len(text))} characters; at most {in_digits(MOST_INPUT)} are given to a model at once: refer to a part "
        "of it, or go through it piece by piece with for_each"
    )


def _without_values(part: Any) -> Any:
    """A schema without the values that references stand for: it allows no less."""
    if isinstance(part, list):
        return [_without_values(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        name: _without_values(value)
        for name, value in part.items()
        if not (name == "enum" and has_references(value) and not _is_named_so(part))
    }


def _is_named_so(part: JsonObject) -> bool:
    """True for the `properties` of an object, of which one is called `enum`."""
    return isinstance(part.get("enum"), dict)
