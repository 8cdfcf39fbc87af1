"""The answer of a model to a step of a plan: what the instruction says, of the input, in the form that was asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from replan.core.as_meant import as_meant
from replan.core.data.read_json import Unreadable, read_json
from replan.core.data.schemas import problems, types_of
from replan.core.data.standing import answers_in
from replan.core.types import JsonObject
from replan.reasoning.prompting.ask import Talk, Violations, ask_typed
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.prompts import Rendered, fence, load

_MOST_TOLD = 10
_OTHERWISE = "if it cannot be done with this input, answer with `cannot` and the reason alone"


class CannotAnswer(Exception):
    """The model says that the instruction cannot be followed with this input; the text is its reason."""


async def answer_step(
    talk: Talk, *, instruction: str, material: str | None, schema: JsonObject | None, corrections: int
) -> Any:
    """What the model makes of the material. Without a schema, a text.

    `CannotAnswer` where it says that it cannot; `AnswerInvalid` where nothing that it says fits.
    """

    def read(answer: Any) -> Any:
        said = _text(answer.get("cannot"))
        given = answer.get("answer")
        if said and given in (None, "", [], {}):
            return CannotAnswer(said)
        if said:
            raise Violations(["it has both `answer` and `cannot`: give the one that holds"])
        if "answer" not in answer:
            raise Violations(["the answer has no 'answer'", _OTHERWISE])
        return _in_form(given, schema)

    found = await ask_typed(
        talk,
        "step",
        step_prompt(instruction, material, schema),
        schema_name="step_answer",
        json_schema=answer_schema(schema),
        read=read,
        needed=("answer",),
        instead=("cannot",),
        corrections=corrections,
        in_place=partial(_without_wrapper, schema),
        otherwise=_OTHERWISE,
    )
    if isinstance(found, CannotAnswer):
        raise found
    return found


def _without_wrapper(
    schema: JsonObject | None, text: str, *, again: bool, last: bool = False
) -> JsonObject | None:
    """A value that the model has given as its whole answer, without `answer` around it: what fits the schema can be nothing else.

    One in other words is none: it may be quoted there. Nor is one that anything would fit, or that has a field of these names.
    """
    kinds = types_of(schema)
    if schema is None or kinds not in _TOLD_APART or (kinds == _OBJECT and not schema.get("required")):
        return None
    try:
        found = answers_in(text)
    except Unreadable:
        return None
    value = found[0].value
    if len(found) > 1 or found[0].words or found[0].quoted or not value:
        return None
    if isinstance(value, dict) and not value.keys().isdisjoint(("answer", "cannot")):
        return None
    return {"answer": value}


_OBJECT = frozenset({"object"})
_TOLD_APART = (_OBJECT, frozenset({"array"}))
"""Kinds of values that stand in an answer as such, and not as words."""


def step_prompt(instruction: str, material: str | None, schema: JsonObject | None) -> Rendered:
    """The prompt, filled in."""
    return load("step", "standard").render(
        instruction=fence("instruction", instruction),
        input="There is no input beside the instruction." if material is None else fence("input", material),
        form=_TEXT if schema is None else _OF_SCHEMA,
    )


_TEXT = "`answer` is a text, as it is to be read: without an introduction, and without words about itself."
_OF_SCHEMA = "`answer` is a value that fits the schema which you are given for it, with every field that this requires and no other words around it."


def answer_schema(schema: JsonObject | None) -> JsonObject:
    """The schema of the whole answer."""
    return {
        "type": "object",
        "properties": {
            "answer": {"type": "string"} if schema is None else inline(schema),
            "cannot": {
                "type": "string",
                "description": "why it cannot be done with this input; then there is no answer",
            },
        },
    }


def _in_form(given: Any, schema: JsonObject | None) -> Any:
    """What was answered, in its form; `Violations` says what is wrong with it."""
    if schema is None:
        if not isinstance(given, str) or not given.strip():
            raise Violations(["answer: has to be a text that says something", _OTHERWISE])
        return given
    found = problems(schema, given, formats=True)
    for other in _other_forms(schema, given) if found else ():
        if not problems(schema, other, formats=True):
            return other
    if found:
        raise Violations([f"answer: {one}" for one in found[:_MOST_TOLD]])
    return given


def _other_forms(schema: JsonObject, given: Any) -> Iterator[Any]:
    """What was answered in another form: JSON in a text, a number or a truth value as a text where no text is wanted."""
    if isinstance(given, str):
        with contextlib.suppress(Unreadable):
            yield read_json(given)
    whole: JsonObject = {"type": "object", "properties": {"answer": inline(schema)}}
    yield as_meant(whole, {"answer": given})["answer"]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
