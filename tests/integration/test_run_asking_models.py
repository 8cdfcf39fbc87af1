"""Steps that ask a model: what they give, and that what was answered is not asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from asking_models import LABEL, SORTED, TEXTS, Slow, asks, material, run, sorts
from run_tasks import Bench, FakeTool, Ran, action, bench, plan, step, verdict

from replan.core.limits.prices import Price
from replan.llm.recorder import RecordingModel, ReplayModel
from replan.run.service.forking import Forking
from replan.testing import ScriptedModel, virtual_time

# ── what it gives ─────────────────────────────────────────────────────────────


def test_a_step_has_what_the_model_has_answered_of_each_item() -> None:
    after = asks("summed", instruction="How is it?", input="${sorted.output[*].label}")
    said = {
        "step_answer": lambda asked: sorts(asked) if "label" in str(asked.json_schema) else {"answer": "Bad."}
    }
    ran = run({"steps": [*SORTED["steps"], after]}, said)
    assert ran.outputs()["sorted"] == [{"label": "good"}, {"label": "bad"}, {"label": "bad"}]
    assert ran.outputs()["summed"] == "Bad."
    assert material(ran.model.requests[-1]) == '["good", "bad", "bad"]'
    assert (ran.result.usage.llm_calls, ran.result.usage.tool_calls) == (4, 5)
    assert ran.result.usage.output_tokens > 0
    assert {one.role for one in ran.events("llm_call_started")} == {"step"}
    assert {one.role for one in ran.events("llm_call_completed")} == {"step"}


def test_its_answer_is_not_streamed() -> None:
    async def main() -> list[str]:
        made = await bench({"texts": TEXTS}, {"step_answer": sorts, "evaluation": verdict()})
        task_id = await made.submit(SORTED, evaluation="model")
        driving = asyncio.ensure_future(made.drive(task_id))
        told = [record async for record in made.service.watch(task_id, 0, ephemeral=True)]
        await driving
        return [record.event.role for record in told if record.type == "llm_token"]  # type: ignore[union-attr]

    assert set(virtual_time(main())) == {"evaluation"}


def test_two_hundred_items_are_asked_about_beside_each_other_and_each_once() -> None:
    texts = FakeTool(output=[f"review {n}" for n in range(200)])
    model = Slow({"step_answer": sorts}, 1.0)
    ran = run(SORTED, tools={"texts": texts}, model=model)
    assert len(ran.outputs()["sorted"]) == 200
    assert model.calls["step_answer"] == 200
    assert model.most == 8  # as many as there are places
    assert ran.times("step_completed")["sorted"] == 25
    assert ran.result.usage.llm_calls == 200


def test_a_planner_is_told_of_it_and_its_plan_is_checked() -> None:
    wrong = {"steps": [*SORTED["steps"], step("b", "texts", parameters={"n": "${sorted.output[0].lable}"})]}
    said = {"execution_plan": [wrong, SORTED], "step_answer": sorts, "evaluation": verdict()}
    ran = run(None, said)
    assert ran.result.is_success
    first, second = [one for one in ran.model.requests if one.schema_name == "execution_plan"]
    assert "tool: model(" in first.turns[0].text
    assert "output: a text, or what its `schema` says" in first.turns[0].text
    assert "has no 'lable'; it has: label" in second.turns[-1].text


def test_what_it_is_told_in_prose_and_may_answer_is_no_placeholder() -> None:
    state = {**LABEL, "properties": {"label": {"enum": ["TODO", "N/A", "done"]}}}
    told = asks(
        "sorted", instruction="List the TODO items, and N/A where there is none.", input="x", schema=state
    )
    said = {
        "execution_plan": plan(told),
        "step_answer": {"answer": {"label": "TODO"}},
        "evaluation": verdict(),
    }
    ran = run(None, said)
    assert ran.result.is_success
    assert not ran.events("plan_rejected")


# ── asked once ────────────────────────────────────────────────────────────────


def test_the_ledger_answers_the_same_question_whatever_was_done_since() -> None:
    pays = step("pay", "pay", "one")
    again = asks("again", "pay", input="It broke", schema=LABEL)
    wanted = plan(asks("one", input="It broke", schema=LABEL), pays, again)
    ran = run(wanted, {"step_answer": [{"answer": {"label": "bad"}}]}, {"pay": FakeTool(effect="once")})
    assert ran.outputs()["one"] == ran.outputs()["again"] == {"label": "bad"}
    assert [one.reused for one in ran.events("call_completed", tool_id="model")] == [False, True]


def test_like_items_that_are_asked_about_at_once_are_no_faults() -> None:
    texts = FakeTool(output=["It broke"] * 20)
    ran = run(SORTED, tools={"texts": texts}, model=Slow({"step_answer": sorts}, 1.0))
    assert ran.outputs()["sorted"] == [{"label": "bad"}] * 20
    assert ran.model.calls["step_answer"] == 1


def test_so_it_does_in_a_later_round() -> None:
    said = {
        "execution_plan": [SORTED, {"steps": [*SORTED["steps"], step("pay", "pay", "sorted")]}],
        "step_answer": sorts,
        "evaluation": [verdict(40, success=False), verdict()],
        "overall_reflection": {
            "problem_nature": "structural_error",
            "should_replan": True,
            "reflection_text": "it was not paid",
            "root_causes": ["no step pays"],
            "replanning_strategy": {"type": "full_replan"},
        },
    }
    ran = run(None, said, {"texts": TEXTS, "pay": FakeTool(effect="once")})
    assert ran.result.is_success
    assert ran.result.total_rounds == 2
    assert ran.model.calls["step_answer"] == 3


def test_what_is_stored_is_not_asked_again_after_the_process_has_gone() -> None:
    async def main() -> Ran:
        made = await bench(
            {"texts": FakeTool(output=[f"review {n}" for n in range(24)])},
            model=Slow({"step_answer": sorts}, 1.0),
        )
        task_id = await made.submit(SORTED)
        driving = asyncio.ensure_future(made.drive(task_id))
        await asyncio.sleep(1.5)  # eight are answered, eight are under way
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        assert made.model.calls["step_answer"] == 8
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.model.calls["step_answer"] == 24
    answered = ran.events("call_completed", tool_id="model")
    assert len(answered) == len({one.index for one in answered}) == 24


def test_a_fork_has_what_its_parent_was_answered() -> None:
    async def main() -> tuple[Ran, Bench]:
        made = await bench({"texts": TEXTS}, {"step_answer": sorts})
        first = await made.run(SORTED)
        wanted = Forking(
            at=first.records[-1].seq - 1, plan={"steps": [*SORTED["steps"], step("more", "texts", "sorted")]}
        )
        fork_id, _ = await made.service.fork(first.result.task_id, wanted)
        return (await made.drive(fork_id)).check(), made

    ran, made = virtual_time(main())
    assert ran.result.is_success
    assert made.model.calls["step_answer"] == 3


def test_a_recording_has_it(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    recorded = run(SORTED, model=RecordingModel(ScriptedModel({"step_answer": sorts}), file))
    replayed = run(SORTED, model=ReplayModel(file))
    assert replayed.outputs() == recorded.outputs()


def test_actions_of_one_step_ask_too() -> None:
    both = step(
        "both",
        actions=[
            action("first", "model", instruction="One word.", input="x"),
            action("second", "model", instruction="Two words.", input="${first.output}"),
        ],
    )
    ran = run(plan(both), {"step_answer": [{"answer": "one"}, {"answer": "one two"}]})
    assert ran.outputs()["both"] == {"first": "one", "second": "one two"}
    assert material(ran.model.requests[1]) == "one"


def test_its_price_counts() -> None:
    model = ScriptedModel({"step_answer": sorts}, price=Price(input=1.0, output=10.0))
    ran = run(SORTED, model=model)
    assert ran.result.usage.cost_usd > 0
