"""The form that a schema asks for (`format`): answers of models and of people are held to it."""

from __future__ import annotations

from typing import Any

import pytest
from asking_models import asks, run
from run_tasks import FakeTool, Ran, bench, plan, step

from replan.core.data.validation import faults
from replan.core.types import JsonObject
from replan.core.waits.questions import right_answer
from replan.errors import InputError
from replan.testing import virtual_time

FORMS = [
    ("date", "2026-02-28", "31.12.2026"),
    ("date", "2024-02-29", "2026-02-29"),
    ("time", "08:00:00Z", "8 o'clock"),
    ("date-time", "2026-03-01T08:00:00+01:00", "2026-03-01 at 8"),
    ("duration", "P3D", "3 days"),
    ("email", "ann@example.org", "nope"),
    ("uri", "https://example.org/a", "example"),
    ("uuid", "0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b"),
    ("ipv4", "192.0.2.1", "192.0.2"),
    ("hostname", "example.org", "not a host"),
]


@pytest.mark.parametrize(("form", "right", "wrong"), FORMS)
def test_a_model_is_told_that_its_answer_is_not_in_the_form(form: str, right: str, wrong: str) -> None:
    schema = {"type": "object", "properties": {"it": {"type": "string", "format": form}}, "required": ["it"]}
    answers = {"step_answer": [{"answer": {"it": wrong}}, {"answer": {"it": right}}]}
    ran = run(plan(asks("m", input="x", schema=schema)), answers)
    assert ran.outputs()["m"] == {"it": right}
    assert f"is not in the form '{form}'" in ran.model.requests[1].turns[-1].text


@pytest.mark.parametrize(("form", "right", "wrong"), FORMS)
def test_so_is_a_person(form: str, right: str, wrong: str) -> None:
    asked = step(
        "q", "ask_user", parameters={"question": "It?", "schema": {"type": "string", "format": form}}
    )

    async def main() -> Ran:
        made = await bench({"note": FakeTool()})
        task_id = await made.submit(plan(asked), interactive=True)
        await made.drive(task_id)
        with pytest.raises(InputError, match="does not fit: right is") as caught:
            await made.service.answer(task_id, wrong, "q")
        assert form in str(caught.value)
        await made.service.answer(task_id, f" {right}\n", "q")
        return (await made.drive(task_id)).check()

    assert virtual_time(main()).outputs() == {"q": right}


@pytest.mark.parametrize("form", ["password", "binary", "currency", "int32"])
def test_a_form_that_nobody_knows_says_nothing(form: str) -> None:
    assert faults({"type": "string", "format": form}, "x", formats=True) == []


def test_what_is_right_is_told_with_an_example() -> None:
    said = right_answer({"type": "string", "format": "date-time"})
    assert said == "a text in the form date-time, as 2026-03-01T08:00:00Z"


def test_items_of_a_long_list_and_parts_of_alternatives_are_held_to_it() -> None:
    days: JsonObject = {
        "type": "array",
        "items": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
    }
    assert not faults(days, [None, *["2026-03-01"] * 3_000], formats=True)
    assert faults(days, ["2026-03-01"] * 3_000 + ["tomorrow"], formats=True)
    (fault,) = faults({"items": {"format": "date"}}, ["tomorrow"] * 1 + ["2026-03-01"] * 3_000, formats=True)
    assert str(fault) == "[0]: 'tomorrow' is not in the form 'date'"


def test_what_a_tool_takes_is_for_the_tool_to_say() -> None:
    seen: list[Any] = []
    day = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}
    note = FakeTool(output=seen.append, parameters=day)

    async def main() -> Ran:
        made = await bench({"note": note})
        return (await made.run(plan(step("n", "note", parameters={"day": "tomorrow"})))).check()

    virtual_time(main())
    assert seen == [{"day": "tomorrow"}]
