"""Steps that ask a person (`ask_user`): the task waits for the answer, which is what the step gives; nothing is held meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict

from replan.core.types import JsonObject
from replan.errors import AnsweredBefore, InputError, NoSuchPart, TaskEnded
from replan.run.service.forking import Forking
from replan.testing import MemoryStore, ScriptedModel, virtual_time


def asks(name: str = "ask", /, *needs: str, **given: Any) -> JsonObject:
    return step(name, "ask_user", *needs, parameters={"question": "Which colour?", **given})


async def asked(*steps: JsonObject, **policy: Any) -> tuple[Bench, str, Ran]:
    made = await bench({"note": FakeTool(output=lambda given: given), "pay": FakeTool(effect="once")})
    task_id = await made.submit(plan(*steps), **{"interactive": True, **policy})
    return made, task_id, await made.drive(task_id)


def test_a_step_waits_for_the_answer_which_is_what_it_gives() -> None:
    uses = step("use", "note", parameters={"colour": "${ask.output}"})

    async def main() -> tuple[Ran, Ran]:
        made, task_id, first = await asked(asks(choices=["red", "blue"]), uses)
        await asyncio.sleep(100_000)
        await made.service.answer(task_id, "Blue", by="ann")
        return first, (await made.drive(task_id)).check()

    first, ran = virtual_time(main())
    assert first.result.status == "waiting"
    (waits,) = first.result.waiting_for
    assert (waits.kind, waits.text, waits.step_id) == ("question", "Which colour?", "ask")
    assert waits.answer_schema == {"enum": ["red", "blue"]}
    assert first.events("task_waiting")[0].waits_for == ("person",)
    (begun,) = ran.events("wait_started")
    assert (begun.kind, begun.token, begun.until) == ("question", waits.id, None)
    assert ran.outputs() == {"ask": "blue", "use": {"colour": "blue"}}
    (answered,) = ran.events("question_answered")
    assert (answered.by, answered.answer, answered.output) == ("ann", "Blue", "blue")
    assert ran.result.is_success
    assert ran.result.ask == ()
    assert ran.result.total_duration_secs < 1, "the time that a person takes does not count"
    assert not ran.state.mending().said, "it is what the step gives, and no word about the task"


@pytest.mark.parametrize(
    ("form", "said", "value"),
    [
        ({}, " as it is ", " as it is "),
        ({"kind": "text"}, "42", "42"),
        ({"kind": "number"}, " 12.5 ", 12.5),
        ({"kind": "yes/no"}, "No.", False),
        ({"kind": "date"}, " 2026-03-01 ", "2026-03-01"),
        ({"choices": [1, 2]}, "2", 2),
        ({"choices": [1, 2.5, "2.50 each"]}, "2.50", 2.5),
        ({"choices": ["red", "Red"]}, "Red", "Red"),
        ({"schema": {"type": "integer", "minimum": 3}}, "3", 3),
        ({"schema": {"type": ["string", "null"]}}, "null", None),
        ({"schema": {"type": ["string", "integer"], "maxLength": 3}}, "abc", "abc"),
        (
            {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
            '{"n": 3}',
            {"n": 3},
        ),
    ],
)
def test_an_answer_in_words_is_read_as_what_is_asked_for(form: JsonObject, said: str, value: Any) -> None:
    async def main() -> Ran:
        made, task_id, _ = await asked(asks(**form))
        await made.service.answer(task_id, said, "ask")
        return (await made.drive(task_id)).check()

    assert virtual_time(main()).outputs() == {"ask": value}


@pytest.mark.parametrize(
    ("form", "said", "value", "right"),
    [
        ({}, " ", None, "the answer is empty"),
        ({}, "", 7, "right is a text"),
        ({"kind": "number"}, "many", None, "right is a number, as 12.5"),
        ({"kind": "number"}, "NaN", None, "right is a number"),
        ({"kind": "number"}, "", True, "right is a number"),
        ({"kind": "yes/no"}, "perhaps", None, "right is yes or no"),
        ({"kind": "date"}, "next Monday", None, "right is a date, as 2026-03-01"),
        ({"kind": "date"}, "2026-02-30", None, "right is a date"),
        ({"choices": ["red", "blue"]}, "green", None, "right is one of red, blue"),
        ({"choices": ["red", "Red"]}, "RED", None, "right is one of red, Red"),
        ({"schema": {"type": "integer", "minimum": 3}}, "2", None, "a number, as 12, at least 3"),
        ({"schema": {"type": "object", "required": ["n"]}}, "{}", None, "JSON that fits"),
        ({"kind": "date"}, "2026-W01-1", None, "a date, as 2026-03-01"),
        ({"kind": "date"}, "2026-02-30", None, "a date, as 2026-03-01"),
        ({"schema": {"const": True}}, "no", None, "right is true"),
        ({"schema": {"type": "string", "maxLength": 3}}, "long", None, "a text of at most 3 characters"),
        ({"schema": {"type": "string", "pattern": "^a+$"}}, "b", None, r"a text that matches \^a\+\$"),
        ({}, "half \ud83d of one", None, "no text that UTF-8 has"),
        ({}, "red", "blue", "given twice"),
        ({}, "x" * 100_001, None, "too large"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_what_would_be_right(
    form: JsonObject, said: str, value: Any, right: str
) -> None:
    async def main() -> Ran:
        made, task_id, _ = await asked(asks(**form))
        with pytest.raises(InputError, match=right):
            await made.service.answer(task_id, said, output=value)
        return await made.ran(task_id)

    ran = virtual_time(main())
    assert not ran.events("question_answered")
    assert ran.result.status == "waiting"


def test_of_two_who_answer_at_once_one_is_heard_and_the_other_is_told_who_was() -> None:
    async def main() -> tuple[list[Any], Ran]:
        made, task_id, _ = await asked(asks())
        said = [made.service.answer(task_id, name, "ask", by=name) for name in ("ann", "bob", "cy")]
        told = await asyncio.gather(*said, return_exceptions=True)
        return told, (await made.drive(task_id)).check()

    told, ran = virtual_time(main())
    (heard,) = ran.events("question_answered")
    late = [one for one in told if isinstance(one, BaseException)]
    assert len(late) == 2
    assert all(isinstance(one, AnsweredBefore) and f"before by {heard.by}" in str(one) for one in late)
    assert ran.outputs() == {"ask": heard.by}


def test_several_are_asked_at_once_and_each_is_answered_by_its_id_or_its_step() -> None:
    each = {**asks("each", question="Price of ${item}?", kind="number"), "for_each": '["pear", "plum"]'}

    async def main() -> Ran:
        made, task_id, first = await asked(asks(), each, step("beside", "note"))
        assert first.statuses()["beside"] == "succeeded", "others go on meanwhile"
        assert len(first.result.waiting_for) == 3
        with pytest.raises(InputError, match="several open questions"):
            await made.service.answer(task_id, "red")
        with pytest.raises(InputError, match="several open questions"):
            await made.service.answer(task_id, "3", "each")
        with pytest.raises(NoSuchPart, match="no open question 'beside'"):
            await made.service.answer(task_id, "3", "beside")
        by_text = {one.text: one for one in first.result.waiting_for}
        assert by_text["Price of plum?"].item == 2
        await made.service.answer(task_id, "2", by_text["Price of plum?"].id)
        await made.service.answer(task_id, "1", "each")  # the only one of the step by now
        between = await made.drive(task_id)
        assert [one.step_id for one in between.result.waiting_for] == ["ask"]
        await made.service.answer(task_id, "red", "ask")
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.outputs()["each"] == [1, 2]
    assert ran.outputs()["ask"] == "red"


def test_an_answer_is_heard_by_whoever_drives_the_task_just_now() -> None:
    async def main() -> Ran:
        made = await bench({"slow": FakeTool(delay_secs=100)})
        task_id = await made.submit(plan(asks(), step("slow", "slow")), interactive=True)
        driving = asyncio.create_task(made.drive(task_id))
        await asyncio.sleep(10)
        await made.service.answer(task_id, "red")
        assert (await made.service.state(task_id)).status == "executing"
        return (await driving).check()

    ran = virtual_time(main())
    assert ran.times("step_completed") == {"ask": 10, "slow": 100}
    assert "task_waiting" not in ran.types()


def test_where_nobody_can_be_asked_the_step_fails_at_once_and_the_question_stands_in_the_result() -> None:
    async def main() -> Ran:
        _, _, ran = await asked(
            asks(choices=["red", "blue"]),
            step("after", "pay", "ask"),
            step("beside", "note"),
            interactive=False,
        )
        return ran.check()

    ran = virtual_time(main())
    assert ran.result.status == "failed"
    assert ran.statuses() == {"ask": "failed", "after": "skipped", "beside": "succeeded"}
    (question,) = ran.result.ask
    assert (question.text, question.step_id, question.answer_schema) == (
        "Which colour?", "ask", {"enum": ["red", "blue"]},
    )  # fmt: skip
    assert ran.result.failure is not None
    assert any("--interactive" in one for one in ran.result.failure.advice)
    assert ran.times("step_failed") == {"ask": 0}
    assert not ran.events("wait_started")


def test_a_limit_fails_the_step_and_an_answer_after_it_is_refused() -> None:
    limited = asks(limit_secs=500)

    async def main(said_after: float | None) -> Ran:
        made, task_id, _ = await asked(limited)
        await asyncio.sleep(said_after or 500)
        if said_after is not None:
            await made.service.answer(task_id, "red", "ask")
        ran = (await made.drive(task_id)).check()
        with pytest.raises(TaskEnded):
            await made.service.answer(task_id, "red", "ask")
        return ran

    assert virtual_time(main(499)).outputs()["ask"] == "red"
    ran = virtual_time(main(None))
    assert ran.times("step_failed") == {"ask": 500}
    assert "nobody has answered within 500 s" in str(ran.result.steps[0].error)
    assert [one.step_id for one in ran.result.ask] == ["ask"]


def test_a_question_whose_step_has_failed_is_asked_no_more_though_others_go_on() -> None:
    async def main() -> None:
        made = await bench({"slow": FakeTool(delay_secs=100)})
        task_id = await made.submit(plan(asks(limit_secs=10), step("slow", "slow")), interactive=True)
        driving = asyncio.create_task(made.drive(task_id))
        await asyncio.sleep(5)
        question = (await made.ran(task_id)).events("question_asked")[0].question_id
        await asyncio.sleep(10)
        with pytest.raises(AnsweredBefore, match="not asked any more"):
            await made.service.answer(task_id, "red", question)
        with pytest.raises(NoSuchPart):
            await made.service.answer(task_id, "red", "ask")
        await driving

    virtual_time(main())


def test_a_cancelled_task_asks_nothing_and_a_retried_step_asks_again() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id, _ = await asked(asks())
        await made.service.cancel(task_id)
        with pytest.raises(TaskEnded):
            await made.service.answer(task_id, "red")
        other = await bench({"slow": FakeTool(delay_secs=100)})
        again = await other.submit(plan(asks(limit_secs=10), step("slow", "slow")), interactive=True)
        driving = asyncio.create_task(other.drive(again))
        await asyncio.sleep(20)
        await other.service.retry_step(again, "ask")
        await asyncio.sleep(2)
        await other.service.answer(again, "red", "ask")
        return await made.ran(task_id), (await driving).check()

    cancelled, ran = virtual_time(main())
    assert (cancelled.result.status, cancelled.result.ask) == ("cancelled", ())
    assert ran.outputs()["ask"] == "red"


def test_a_fork_goes_on_with_an_answer_that_stands_and_asks_where_none_does() -> None:
    async def main() -> tuple[Ran, Ran, Ran]:
        made, task_id, first = await asked(asks(), step("use", "note", parameters={"c": "${ask.output}"}))
        open_, _ = await made.service.fork(task_id, Forking())
        await made.service.answer(task_id, "red")
        ran = (await made.drive(task_id)).check()
        told, _ = await made.service.fork(task_id, Forking(retry=(), plan=plan(asks("other"))))
        waits = await made.drive(open_)
        assert [one.id for one in waits.result.waiting_for] == [first.result.waiting_for[0].id]
        await made.service.answer(open_, "blue")
        return ran, (await made.drive(open_)).check(), (await made.drive(told)).check()

    ran, fork, told = virtual_time(main())
    assert (ran.outputs()["use"], fork.outputs()["use"]) == ({"c": "red"}, {"c": "blue"})
    assert told.outputs()["other"] == "red", "the very same question is not asked again"
    assert len(told.events("question_asked")) == 1


def test_a_later_plan_has_the_answer_whatever_has_been_done_since() -> None:
    """Also an effect between the two does not make it old."""
    wanted = plan(asks(), step("pay", "pay", "ask"), step("bad", "bad", "pay"))
    anew = plan(asks("colour"), step("end", "note", parameters={"c": "${colour.output}"}))
    replans = {
        "should_replan": True,
        "root_causes": ["bad is broken"],
        "replanning_strategy": {"type": "full_replan", "reason": "without it"},
    }
    answers = {
        "execution_plan": [wanted, anew],
        "step_reflection": {
            "root_cause": "broken",
            "suggested_action": {"type": "trigger_overall_reflection"},
        },
        "overall_reflection": replans,
        "evaluation": verdict(95),
    }

    async def main() -> Ran:
        tools = {"pay": FakeTool(effect="once"), "bad": FakeTool(fail=["no"] * 9), "note": FakeTool()}
        made = await bench(tools, model=ScriptedModel(answers))
        task_id = await made.submit(interactive=True)
        await made.drive(task_id)
        await made.service.answer(task_id, "red")
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success, ran.result.failure
    assert ran.outputs()["colour"] == "red"
    assert len(ran.events("question_asked")) == 1


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"question": ""}, "question"),
        ({"choices": ["a"], "kind": "date"}, "give one of choices, schema, kind"),
        ({"choices": []}, "choices"),
        ({"kind": "colour"}, "kind"),
        ({"schema": {"type": "colour"}}, "schema: no valid JSON Schema"),
        ({"schema": {"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}}}, "without $ref"),
        ({"schema": {"properties": {"$ref": {"type": "colour"}}}}, "no valid JSON Schema"),
        ({"schema": {"type": "string", "pattern": "(a"}}, "schema:"),
        ({"schema": {"type": "string", "description": "x" * 9_000}}, "characters"),
        ({"choices": ["a", "x" * 1_001]}, "one has more than 1000 characters"),
        ({"limit_secs": 1e300}, "more than 366 days"),
        ({"schema": {"properties": {"pin": {"type": "string", "format": "password"}}}}, "asks for a secret"),
        ({"question": " \n "}, "nothing but blanks"),
    ],
)
def test_a_question_that_cannot_be_asked_is_no_plan(given: JsonObject, wrong: str) -> None:
    async def main() -> Ran:
        _, _, ran = await asked(asks(**given))
        return ran

    ran = virtual_time(main())
    assert ran.result.status == "failed"
    assert not ran.events("call_started")
    (rejected,) = ran.events("plan_rejected")
    assert any(wrong in one for one in rejected.violations), rejected.violations


@pytest.mark.parametrize(
    ("form", "reference", "wrong"),
    [
        ({"choices": ["a"]}, "${= ask.output * 2 }", "a text * a number"),
        ({"kind": "yes/no"}, "${ask.output[0]}", "selects nothing"),
        (
            {"schema": {"type": "object", "properties": {"n": {}}, "additionalProperties": False}},
            "${ask.output.m}",
            "selects nothing",
        ),
    ],
)
def test_what_refers_to_an_answer_is_checked_with_the_plan(
    form: JsonObject, reference: str, wrong: str
) -> None:
    async def main() -> Ran:
        _, _, ran = await asked(asks(**form), step("use", "note", parameters={"x": reference}))
        return ran

    (rejected,) = virtual_time(main()).events("plan_rejected")
    assert wrong in rejected.violations[0]


def test_choices_may_come_from_a_step_and_texts_of_tools_are_no_references() -> None:
    lists = FakeTool(output=["${ask.output}", "plain", "plain"])

    async def main() -> tuple[Ran, Ran]:
        made = await bench({"list": lists})
        wanted = plan(
            step("list", "list"), asks("ask", question="Of ${list.output[0]}?", choices="${list.output}")
        )
        task_id = await made.submit(wanted, interactive=True)
        first = await made.drive(task_id)
        await made.service.answer(task_id, "${ask.output}")
        return first, (await made.drive(task_id)).check()

    first, ran = virtual_time(main())
    (waits,) = first.result.waiting_for
    assert waits.text == "Of ${ask.output}?"
    assert waits.answer_schema == {"enum": ["${ask.output}", "plain"]}
    assert ran.outputs()["ask"] == "${ask.output}"


def test_a_schema_that_a_step_gives_is_checked_before_anybody_is_asked() -> None:
    bad = {"$ref": "#", "description": "${x}"}

    async def main() -> Ran:
        made = await bench({"form": FakeTool(output=bad)})
        wanted = plan(step("form", "form"), asks(schema="${form.output}"))
        return (await made.drive(await made.submit(wanted, interactive=True))).check()

    ran = virtual_time(main())
    assert "without $ref" in str(ran.result.steps[1].error)
    assert not ran.events("question_asked")


def test_a_secret_that_an_answer_repeats_is_in_no_log() -> None:
    async def main() -> Ran:
        made, task_id, _ = await asked(asks())
        made.parts.secrets.add_all([("api_key", "sk-very-secret-key")])
        await made.service.answer(task_id, "sk-very-secret-key")
        return (await made.drive(task_id)).check()

    assert "sk-very-secret-key" not in repr(virtual_time(main()).records)


@pytest.mark.parametrize(
    ("form", "said", "secret"),
    [
        ({}, "password: hunter2xyzw AKIAIOSFODNN7EXAMPLE", ("hunter2xyzw", "AKIAIOSFODNN7EXAMPLE")),
        ({}, "see https://me:pw-4711-x@host/x?token=abcdefgh1", ("pw-4711-x", "abcdefgh1")),
        ({"schema": {"type": "object"}}, '{"my": {"password": "hunter two"}, "n": 3}', ("hunter two",)),
        (
            {"schema": {"type": "array"}},
            '[["ghp_abcdefghijklmnopqrst12"], 3]',
            ("ghp_abcdefghijklmnopqrst12",),
        ),
    ],
)
@pytest.mark.parametrize("in_words", [True, False])
@pytest.mark.parametrize("beside", [True, False])
def test_what_looks_like_a_secret_in_an_answer_reaches_the_call_alone(
    form: JsonObject, said: str, secret: tuple[str, ...], in_words: bool, beside: bool
) -> None:
    """`beside`: another step runs as it is said, and the driver hears of it at once."""

    reached: list[JsonObject] = []

    def note(given: JsonObject) -> JsonObject:
        reached.append(given)
        return given

    async def main() -> Ran:
        made = await bench({"note": FakeTool(output=note), "slow": FakeTool(delay_secs=5)})
        steps = [asks(**form), step("use", "note", parameters={"what": "${ask.output}"})]
        task_id = await made.submit(
            plan(*steps, *([step("slow", "slow")] if beside else [])), interactive=True
        )
        value = json.loads(said) if form else said
        given = {"text": said} if in_words else {"text": "", "output": value}
        if beside:
            driving = asyncio.create_task(made.drive(task_id))
            await asyncio.sleep(2)
            await made.service.answer(task_id, question_id="ask", **given)
            ran = await driving
        else:
            await made.drive(task_id)
            await made.service.answer(task_id, question_id="ask", **given)
            ran = await made.drive(task_id)
        assert reached == [{"what": value}]
        return ran.check()

    ran = virtual_time(main())
    shown = repr(ran.records) + repr(ran.result) + repr(ran.outputs())
    assert [one for one in secret if one in shown] == []
    (answered,) = ran.events("question_answered")
    assert answered.masked
    assert "***" in answered.answer
    assert "***" in json.dumps(answered.output)


def test_what_another_process_was_told_is_a_mask_that_no_call_gets() -> None:
    async def main() -> tuple[Ran, list[JsonObject]]:
        kept, reached = MemoryStore(), list[JsonObject]()
        note = {"note": FakeTool(output=lambda given: reached.append(given))}
        drives, tells = await bench(note, store=kept), await bench(note, store=kept)
        uses = step("use", "note", parameters={"what": "${ask.output}"})
        task_id = await drives.submit(plan(asks(), uses), interactive=True)
        await drives.drive(task_id)
        await tells.service.answer(task_id, "password: hunter2xyzw")
        return (await drives.drive(task_id)).check(), reached

    ran, reached = virtual_time(main())
    assert not reached
    assert "hunter2xyzw" not in repr(ran.records)
    assert "secret" in str(ran.result.steps[1].error)


@pytest.mark.parametrize(
    "said", ["password: use the old one", "the pin is in the drawer", "see https://x.example/?q=1"]
)
def test_a_sentence_about_secrets_is_an_answer_as_any(said: str) -> None:
    async def main() -> Ran:
        made, task_id, _ = await asked(asks())
        await made.service.answer(task_id, said)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.outputs() == {"ask": said}
    assert not ran.events("question_answered")[0].masked


@pytest.mark.parametrize("interactive", [True, False])
def test_a_planner_is_told_of_it_only_where_somebody_can_be_asked(interactive: bool) -> None:
    async def main() -> Ran:
        made = await bench({}, {"execution_plan": plan(), "evaluation": verdict(95)})
        return await made.run(interactive=interactive)

    ran = virtual_time(main())
    prompt = repr([one for one in ran.model.requests if one.schema_name == "execution_plan"])
    assert ("tool: ask_user" in prompt) is interactive
