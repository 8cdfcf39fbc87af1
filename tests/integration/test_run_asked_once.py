"""Like questions side by side: a model is asked once, and so is a person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asking_models import LABEL, Slow, asks, run
from run_tasks import FakeTool, Ran, bench, plan, step

from replan.core.types import JsonObject
from replan.errors import AnsweredBefore
from replan.testing import ScriptedModel, virtual_time


def counted() -> Any:
    """A model that gives another answer each time."""
    model = Slow(lambda request: {"answer": f"r{model.calls['step_answer']}"}, 1.0)
    return model


def test_like_items_are_asked_about_once() -> None:
    model = counted()
    ran = run(plan(asks("m", for_each=["a"] * 6 + ["b"], input="${item}")), model=model)
    found = ran.outputs()["m"]
    assert len(set(found[:6])) == 1
    assert found[6] not in found[:6]
    assert len(model.requests) == 2
    assert (ran.result.usage.llm_calls, ran.result.usage.tool_calls) == (2, 7)
    assert ran.times("step_completed")["m"] == 1


def test_so_are_those_that_had_begun_when_a_quick_model_had_answered() -> None:
    model = ScriptedModel(lambda request: {"answer": f"r{model.calls['step_answer']}"})
    steps = [asks("m1", input="x"), asks("m2", input="x"), asks("m3", for_each=["a"] * 6, input="${item}")]
    found = run(plan(*steps), model=model).outputs()
    assert found["m1"] == found["m2"]
    assert len(set(found["m3"])) == 1
    assert len(model.requests) == 2


def test_like_steps_side_by_side_are_asked_once_and_others_by_themselves() -> None:
    model = counted()
    steps = [
        asks("m1", input="x"),
        asks("m2", input="x"),
        asks("m3", input="y"),
        asks("m4", instruction="Other.", input="x"),
    ]
    ran = run(plan(*steps), model=model)
    found = ran.outputs()
    assert found["m1"] == found["m2"]
    assert len({found["m1"], found["m3"], found["m4"]}) == 3
    assert len(model.requests) == 3


def test_what_fits_no_form_fails_all_of_them_and_costs_what_one_does() -> None:
    each = asks("m", for_each=["x"] * 4, input="${item}", schema=LABEL)
    alone, both = (
        run(plan(one), model=Slow({"step_answer": "prose"}, 1.0), max_rounds=1)
        for one in (asks("m", input="x", schema=LABEL), each)
    )
    assert both.result.status == alone.result.status == "failed"
    assert both.model.calls["step_answer"] == alone.model.calls["step_answer"]


def test_one_whose_time_is_over_takes_no_answer_from_the_other() -> None:
    model = Slow({"step_answer": {"answer": "late"}}, 5.0)
    short, long = asks("short", input="x", timeout_secs=2), asks("long", input="x")
    ran = run(plan(short, long), model=model, max_rounds=1)
    assert ran.statuses() == {"short": "failed", "long": "succeeded"}
    assert ran.outputs()["long"] == "late"


# ── people ──


def put(name: str, /, *needs: str, **given: Any) -> JsonObject:
    return step(name, "ask_user", *needs, parameters={"question": "Which?", **given})


async def asked(*steps: JsonObject, **policy: Any) -> tuple[Any, str, Ran]:
    made = await bench({"note": FakeTool(output=lambda given: given)})
    task_id = await made.submit(plan(*steps), **{"interactive": True, **policy})
    return made, task_id, await made.drive(task_id)


def test_a_person_is_asked_once_and_both_steps_have_the_answer() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id, first = await asked(put("q1"), put("q2"), put("q3", choices=["a", "b"]))
        await made.service.answer(task_id, "a", "q3")
        await made.service.answer(task_id, "this", "q2")
        with pytest.raises(AnsweredBefore):
            await made.service.answer(task_id, "that", "q1")
        return first, (await made.drive(task_id)).check()

    first, ran = virtual_time(main())
    assert [one.answer_schema for one in first.result.waiting_for] == [
        {"type": "string", "minLength": 1},
        {"enum": ["a", "b"]},
    ]
    assert ran.outputs() == {"q1": "this", "q2": "this", "q3": "a"}


def test_like_items_put_one_question() -> None:
    each = step("q", "ask_user", for_each=["a", "b", "a"], parameters={"question": "What of ${item}?"})

    async def main() -> tuple[Ran, Ran]:
        made, task_id, first = await asked(each)
        for one in first.result.waiting_for:
            await made.service.answer(task_id, one.text[-2], one.id)
        return first, (await made.drive(task_id)).check()

    first, ran = virtual_time(main())
    assert [one.text for one in first.result.waiting_for] == ["What of a?", "What of b?"]
    assert ran.outputs()["q"] == ["a", "b", "a"]


def test_the_question_stands_as_long_as_one_of_its_steps_waits() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id, _ = await asked(
            step("q1", "ask_user", parameters={"question": "Which?"}, timeout_secs=50),
            put("q2"),
            max_rounds=1,
        )
        await asyncio.sleep(100)
        between = await made.drive(task_id)
        if between.result.status == "waiting":
            await made.service.answer(task_id, "this", between.result.waiting_for[0].id)
        return between, await made.drive(task_id)

    between, ran = virtual_time(main())
    assert between.result.status == "waiting"
    assert ran.statuses() == {"q1": "failed", "q2": "succeeded"}
    assert len(ran.events("question_asked")) == 1


def test_where_nobody_can_be_asked_it_stands_in_the_result_once() -> None:
    async def main() -> Ran:
        _, _, ran = await asked(put("q1"), put("q2"), interactive=False, max_rounds=1)
        return ran

    assert [one.text for one in virtual_time(main()).result.ask] == ["Which?"]
