"""Scenes and workflows in whole tasks: chosen by a model, or named by whoever submits; in the log, and safe from what slots hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_tasks import plan, step, verdict
from test_run_recovery import reflection

from replan import Replan, tool
from replan.core.events import PlanGenerated, PlanRejected, ToolSelectionCompleted
from replan.core.types import JsonObject
from replan.errors import InputError
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio

WORKFLOW = """
id: city-report
description: Look up a city and send what was found to somebody.
slots:
  city: {type: string, description: The city.}
  to: {type: string, minLength: 3}
  copies: {type: integer, minimum: 1, default: 1}
  note: {type: string}
optional: [note]
task_type: report
steps:
  - {step_id: look, tool: look_up, parameters: {city: "${slots.city}"}}
  - step_id: mail
    tool: send
    when: "look.output.size > `0` && ${slots.copies} > `0`"
    parameters:
      to: "${slots.to}"
      text: "About ${slots.city} (${slots.copies}): ${look.output.text}"
      note: "${slots.note}"
"""
SCENE = """---
task_type: report
description: Tasks that want something to be reported to somebody.
selection: SELECT-REPORT
---
FOR-ALL

# Planning
PLAN-REPORT

# Evaluation
JUDGE-REPORT
"""
OTHER = "---\ntask_type: sums\ndescription: Sums.\nplanning: PLAN-SUMS\nevaluation: JUDGE-SUMS\nreflection: REFLECT-SUMS\n---\n"
sent: list[JsonObject] = []


@tool(effect="reads")
def look_up(city: str) -> dict[str, Any]:
    """Look up a city."""
    return {"text": f"{city} is large", "size": 7}


@tool(effect="once")
def send(to: str, text: str, note: str = "") -> str:
    """Send a text."""
    sent.append({"to": to, "text": text, "note": note})
    return "sent"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "scenes").mkdir()
    (tmp_path / "flows" / "city.yaml").write_text(WORKFLOW)
    (tmp_path / "scenes" / "report.md").write_text(SCENE)
    (tmp_path / "scenes" / "sums.md").write_text(OTHER)
    return tmp_path


def made(files: Path, model: ScriptedModel | None = None, *, scenes: bool = False, **more: Any) -> Replan:
    return Replan(
        model,
        [look_up, send],
        db=files / "log.db",
        workflows=files / "flows",
        scenes=files / "scenes" if scenes else (),
        **more,
    )


def asked(model: ScriptedModel) -> list[str]:
    return [one.schema_name for one in model.requests]


def told(model: ScriptedModel, name: str) -> str:
    return next(one for one in model.requests if one.schema_name == name).turns[0].text


NAMED = {"steps": [], "workflow_id": "city-report", "task_type": "report"}
FILLED = {"slots": {"city": "Rome", "to": "ann", "copies": 2}}
EVIL = [
    "${look.output.text}",
    "{{look.output}}",
    "$${x}",
    "a\n'b'\"c`",
    "{",
    "$",
    "{} ${metadata.x} }",
    "\\u0060",
    "ünï",
    "true",
]


async def test_a_workflow_needs_no_model_and_its_slots_are_typed(files: Path) -> None:
    async with made(files, evaluation="steps") as replan:
        done = await replan.run(workflow="city-report", slots={"city": "Rome", "to": "ann"})
        assert done.succeeded, done.failure
        log = await replan.history(done.task_id)
    assert sent == [{"to": "ann", "text": "About Rome (1): Rome is large", "note": ""}]
    first = log[0].event
    assert first.workflow.slots == {"city": "Rome", "to": "ann", "copies": 1}  # type: ignore[union-attr]
    assert first.description.startswith("Look up a city")  # type: ignore[union-attr]
    (planned,) = [one.event for one in log if isinstance(one.event, PlanGenerated)]
    assert (planned.workflow_id, planned.task_type) == ("city-report", "report")


@pytest.mark.parametrize("evil", EVIL)
async def test_what_a_slot_is_filled_with_is_data_and_nothing_else(files: Path, evil: str) -> None:
    (files / "flows" / "each.yaml").write_text(
        "id: each\ndescription: d\nslots: {items: {type: array}, tag: {type: string}, whole: {type: object}}\nsteps:\n"
        "  - {step_id: s, tool: send, for_each: '${slots.items}', when: '${slots.tag} == ${slots.tag} && ${slots.whole.k} == ${slots.tag}',"
        " parameters: {to: '${item}', text: '{${slots.tag} ${index} ${slots.whole}', note: '${slots.tag}'}}\n"
    )
    slots = {"items": [evil], "tag": evil, "whole": {"k": evil, evil: 1}}
    async with made(files, evaluation="steps") as replan:
        done = await replan.run(workflow="each", slots=slots)
        assert done.succeeded, done.failure
    shown = json.dumps(slots["whole"], ensure_ascii=False)
    assert sent == [{"to": evil, "text": f"{{{evil} 0 {shown}", "note": evil}]


async def test_a_mark_that_would_come_about_between_a_slot_and_a_reference_is_refused(files: Path) -> None:
    (files / "flows" / "dollar.yaml").write_text(
        "id: dollar\ndescription: d\nslots: {sign: {type: string}}\nsteps:\n"
        "  - {step_id: look, tool: look_up, parameters: {city: x}}\n"
        "  - {step_id: s, tool: send, parameters: {to: a, text: '${slots.sign}${look.output.text}'}}\n"
    )
    async with made(files, evaluation="steps") as replan:
        with pytest.raises(InputError, match=r"step 's'.*ends in `\$`"):
            await replan.run(workflow="dollar", slots={"sign": "$"})
        assert (await replan.run(workflow="dollar", slots={"sign": "{"})).succeeded
    assert sent == [{"to": "a", "text": "{x is large", "note": ""}]


@pytest.mark.parametrize(
    ("workflow", "slots", "wrong"),
    [
        ("city-reprot", {}, "did you mean 'city-report'"),
        ("city-report", {"city": "Rome"}, r"slot 'to' has to be filled \(to: string\)"),
        ("city-report", {"city": 5, "to": "ann"}, "slot 'city'"),
        ("city-report", {"city": "Rome", "to": "ann", "citi": 1}, "no slot 'citi'; did you mean 'city'"),
        (None, {"city": "Rome"}, "name it, too"),
    ],
)
async def test_what_does_not_fit_is_said_before_there_is_a_task(
    files: Path, workflow: str | None, slots: JsonObject, wrong: str
) -> None:
    async with made(files, evaluation="steps") as replan:
        with pytest.raises(InputError, match=wrong):
            await replan.run("x", workflow=workflow, slots=slots)
        assert await replan.tasks() == []


async def test_the_same_request_is_the_same_task_also_once_its_workflow_was_edited(files: Path) -> None:
    wanted: dict[str, Any] = {
        "workflow": "city-report",
        "slots": {"city": "Rome", "to": "ann"},
        "task_id": "t-1",
    }
    async with made(files, evaluation="steps") as replan:
        await replan.run(**wanted)
    (files / "flows" / "city.yaml").write_text(WORKFLOW.replace("About ${", "On ${"))
    async with made(files, evaluation="steps") as replan:
        assert (await replan.run(**wanted)).succeeded
        assert len(sent) == 1
        with pytest.raises(InputError, match="exists already"):
            await replan.run(**wanted | {"slots": {"city": "Oslo", "to": "ann"}})


async def test_the_plan_may_name_a_workflow_whose_slots_are_then_all_that_is_asked_for(files: Path) -> None:
    model = ScriptedModel({"execution_plan": NAMED, "workflow_slots": FILLED, "evaluation": verdict()})
    async with made(files, model) as replan:
        done = await replan.run("report on Rome to ann, twice")
        assert done.succeeded, done.failure
        log = await replan.history(done.task_id)
    assert asked(model) == ["execution_plan", "workflow_slots", "evaluation"]
    assert "city-report(city: string, to: string, copies?: integer = 1, note?: string)" in told(
        model, "execution_plan"
    )
    assert sent[0]["text"] == "About Rome (2): Rome is large"
    (planned,) = [one.event for one in log if isinstance(one.event, PlanGenerated)]
    assert planned.workflow is not None
    assert planned.workflow.slots == {"city": "Rome", "to": "ann", "copies": 2}
    assert '"slots": {"city": "Rome"' in told(model, "evaluation"), "the judge sees what it was for"


def many(count: int) -> list[Callable[..., Any]]:
    def one(n: int) -> Callable[..., Any]:
        @tool(effect="reads", name=f"other_{n}")
        def other() -> str:
            """Something else."""
            return ""

        return other

    return [one(n) for n in range(count)]


async def test_a_selection_may_name_it_and_says_the_kind_whose_guidance_the_later_prompts_have(
    files: Path,
) -> None:
    chosen = {"tools": [], "workflow_id": "City_Report", "task_type": "REPORT"}
    model = ScriptedModel({"tool_selection": chosen, "workflow_slots": FILLED, "evaluation": verdict()})
    async with Replan(
        model,
        [look_up, send, *many(10)],
        db=files / "log.db",
        workflows=files / "flows",
        scenes=files / "scenes",
    ) as replan:
        done = await replan.run("report on Rome to ann, twice")
        assert done.succeeded, done.failure
        log = await replan.history(done.task_id)
    assert asked(model) == ["tool_selection", "workflow_slots", "evaluation"]
    first = told(model, "tool_selection")
    assert "SELECT-REPORT" in first
    assert "- sums: Sums." in first
    assert "PLAN-REPORT" in told(model, "workflow_slots")
    assert "JUDGE-REPORT" in told(model, "evaluation")
    assert "PLAN-SUMS" not in told(model, "workflow_slots")
    (selected,) = [one.event for one in log if isinstance(one.event, ToolSelectionCompleted)]
    assert selected.scene is not None
    assert selected.scene.task_type == "report"
    assert {one.tool_id for one in selected.tools} == {"look_up", "send"}


@pytest.mark.parametrize("by", ["selection", "plan"])
async def test_who_fills_slots_sees_the_steps_their_tools_and_the_advice_however_the_workflow_was_named(
    files: Path, by: str
) -> None:
    chosen = {"tools": [{"tool_id": "other_3", "score": 95}], "workflow_id": "city-report"}
    answers = {"tool_selection": chosen, "execution_plan": NAMED, "workflow_slots": FILLED}
    model = ScriptedModel({**answers, "evaluation": verdict()})
    more = many(10) if by == "selection" else many(4)
    async with Replan(
        model,
        [look_up, send, *more],
        db=files / "log.db",
        workflows=files / "flows",
        scenes=files / "scenes",
    ) as replan:
        done = await replan.run("report on Rome to ann, twice")
    assert done.succeeded, done.failure
    assert asked(model)[0] == ("tool_selection" if by == "selection" else "execution_plan")
    shown = told(model, "workflow_slots")
    assert 'look: look_up {"city": "${slots.city}"}\n' in shown
    assert "when look.output.size > `0` && ${slots.copies} > `0`" in shown
    assert "send(to: string, text: string, note?: string): Send a text. (has an effect)" in shown
    assert "other_3(" in shown.split("What another plan could call:")[1], "a tool that was selected beside it"
    assert "wait_for" not in shown
    assert "PLAN-REPORT" in shown
    assert "PLAN-SUMS" not in shown


async def test_with_few_tools_the_plan_says_the_kind_and_no_call_is_added(files: Path) -> None:
    answer = {**plan(step("a", "look_up", parameters={"city": "Rome"})), "task_type": "sums"}
    model = ScriptedModel({"execution_plan": answer, "evaluation": verdict()})
    async with made(files, model, scenes=True) as replan:
        done = await replan.run("add it up")
        log = await replan.history(done.task_id)
    assert asked(model) == ["execution_plan", "evaluation"], "two calls, as ever"
    assert "PLAN-SUMS" in told(model, "execution_plan")
    assert "PLAN-REPORT" in told(model, "execution_plan")
    assert "JUDGE-SUMS" in told(model, "evaluation")
    assert "JUDGE-REPORT" not in told(model, "evaluation")
    (planned,) = [one.event for one in log if isinstance(one.event, PlanGenerated)]
    assert planned.scene is not None
    assert planned.scene.planning == "PLAN-SUMS"


async def test_too_much_guidance_for_one_prompt_is_chosen_from_first_and_every_tool_stays(
    files: Path,
) -> None:
    (files / "scenes" / "sums.md").write_text(OTHER.replace("PLAN-SUMS", "PLAN-SUMS " + "x" * 15_000))
    answer = plan(step("a", "look_up", parameters={"city": "Rome"}))
    model = ScriptedModel(
        {
            "tool_selection": {"tools": [], "task_type": "sums"},
            "execution_plan": answer,
            "evaluation": verdict(),
        }
    )
    async with made(files, model, scenes=True) as replan:
        done = await replan.run("add it up")
        log = await replan.history(done.task_id)
    assert asked(model) == ["tool_selection", "execution_plan", "evaluation"]
    assert "PLAN-SUMS xxx" in told(model, "execution_plan")
    (selected,) = [one.event for one in log if isinstance(one.event, ToolSelectionCompleted)]
    assert {one.tool_id for one in selected.tools} == {"look_up", "send"}


async def test_a_small_model_says_the_kind_first_and_is_asked_as_ever_where_there_is_none(
    files: Path,
) -> None:
    def small() -> ScriptedModel:
        return ScriptedModel(
            {
                "tool_selection": {"tools": [], "task_type": "report", "workflow_id": "city-report"},
                "workflow_slots": {"slots": {"city": "Rome", "to": "ann", "copies": None, "note": None}},
                "execution_plan": plan(step("a", "look_up", parameters={"city": "Rome"})),
                "evaluation": verdict(),
            },
            style="small",
        )

    model = small()
    async with made(files, model, scenes=True) as replan:
        assert (await replan.run("report on Rome to ann")).succeeded
    assert asked(model) == ["tool_selection", "workflow_slots", "evaluation"]
    assert sent[0]["text"] == "About Rome (1): Rome is large"
    assert "JUDGE-REPORT" in told(model, "evaluation")
    plain, by_default = small(), small()
    for one, more in ((plain, {"enable_builtin": False}), (by_default, {})):
        del more
        async with Replan(one, [look_up, send], db=files / f"{id(one)}.db") as replan:
            await replan.run("report on Rome to ann")
    assert [one.turns for one in plain.requests] == [one.turns for one in by_default.requests]
    assert asked(plain) == ["execution_plan", "evaluation"]
    assert "workflow" not in told(plain, "execution_plan").lower()


async def test_a_workflow_that_does_not_exist_goes_back_and_then_steps_are_written(files: Path) -> None:
    steps = plan(step("a", "look_up", parameters={"city": "Rome"}))
    model = ScriptedModel(
        {"execution_plan": [{"steps": [], "workflow_id": "weekly"}, steps], "evaluation": verdict()}
    )
    async with made(files, model) as replan:
        done = await replan.run("do the weekly thing")
        log = await replan.history(done.task_id)
    assert done.succeeded
    (refused,) = [one.event for one in log if isinstance(one.event, PlanRejected)]
    assert "there is no workflow 'weekly' (there are: city-report)" in refused.violations[0]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([{"slots": {"city": "Rome", "to": 5}}] * 2, "slot 'to'"),
        ([{"slots": {"city": "Rome"}, "missing": ["to"]}], "nothing says what to fill to with"),
        ([{"slots": {}, "cannot": "it is about a country"}], "it is about a country"),
        ([{"slots": {"city": "Rome", "to": "TODO"}}] * 2, "placeholder"),
        ([{"slots": {"city": "Rome"}}] * 2, "has to be filled"),
        ([FILLED | {"needs_confirmation": True}] * 2, "needs_confirmation"),
        ([FILLED | {"missing": ["to"]}], "nothing says what to fill to with"),
    ],
)
async def test_slots_that_cannot_be_filled_leave_it_to_the_planner(
    files: Path, answers: list[JsonObject], why: str
) -> None:
    steps = plan(step("a", "look_up", parameters={"city": "Rome"}))
    model = ScriptedModel(
        {"execution_plan": [NAMED, steps], "workflow_slots": answers, "evaluation": verdict()}
    )
    async with made(files, model) as replan:
        done = await replan.run("report on Rome")
        log = await replan.history(done.task_id)
    assert done.succeeded
    assert model.calls["workflow_slots"] == len(answers)
    (planned,) = [one.event for one in log if isinstance(one.event, PlanGenerated)]
    assert planned.workflow_id is None
    assert why in planned.notes[0]
    assert "city-report" not in model.requests[-2].turns[0].text, "it is not offered again"
    assert sent == []


async def test_numbers_as_texts_and_null_for_what_may_stay_empty_are_read_in_slots_and_plans(
    files: Path,
) -> None:
    filled = {"slots": {"city": "Rome", "to": "ann", "copies": "2", "note": None}, "missing": None}
    model = ScriptedModel({"execution_plan": NAMED, "workflow_slots": filled, "evaluation": verdict()})
    async with made(files, model) as replan:
        done = await replan.run("report on Rome to ann, twice")
    assert done.succeeded, done.failure
    assert model.calls["workflow_slots"] == 1
    assert sent == [{"to": "ann", "text": "About Rome (2): Rome is large", "note": ""}]


async def test_a_plan_with_numbers_as_texts_costs_no_correction(files: Path) -> None:
    got: list[Any] = []

    @tool(effect="once")
    def pay(to: str, cents: int, share: float = 1.0, why: str = "") -> str:
        """Pay."""
        got.append((to, cents, share, why))
        return "paid"

    written = {"to": "17", "cents": "4500", "share": "0.5", "why": None}
    model = ScriptedModel(
        {"execution_plan": plan(step("a", "pay", parameters=written)), "evaluation": verdict()}
    )
    async with Replan(model, [pay], db=files / "log.db") as replan:
        done = await replan.run("pay 17 its 45 euros")
        log = await replan.history(done.task_id)
    assert done.succeeded, done.failure
    assert got == [("17", 4500, 0.5, "")], "what is a text stays one"
    assert model.calls["execution_plan"] == 1
    (planned,) = [one.event for one in log if isinstance(one.event, PlanGenerated)]
    assert planned.plan.steps[0].parameters == {"to": "17", "cents": 4500, "share": 0.5}


async def test_a_person_is_asked_for_a_slot_that_nothing_says(files: Path) -> None:
    lacking = {"slots": {"city": "Rome"}, "missing": ["to"], "ask_first": "To whom?"}
    model = ScriptedModel(
        {"execution_plan": NAMED, "workflow_slots": [lacking, FILLED], "evaluation": verdict()}
    )
    async with made(files, model, interactive=True) as replan:
        waiting = await replan.run("report on Rome")
        assert waiting.status == "waiting"
        assert "To whom?" in str(waiting.waiting_for)
        await replan.answer(waiting.task_id, "to ann")
        done = await replan.resume(waiting.task_id)
    assert done.succeeded, done.failure
    assert (
        "to ann" in [one for one in model.requests if one.schema_name == "workflow_slots"][-1].turns[0].text
    )
    assert sent[0]["to"] == "ann"


async def test_a_task_goes_on_by_what_was_chosen_whatever_became_of_the_files(files: Path) -> None:
    """The slots are asked for in another process, in which there is neither the scene nor the workflow."""
    chosen = {"tools": [], "workflow_id": "city-report", "task_type": "report"}
    lacking = {"slots": {"city": "Rome"}, "missing": ["to"]}
    tools = [look_up, send, *many(10)]
    model = ScriptedModel({"tool_selection": chosen, "workflow_slots": lacking})
    where: dict[str, Any] = {"db": files / "log.db", "interactive": True}
    async with Replan(model, tools, workflows=files / "flows", scenes=files / "scenes", **where) as replan:
        task_id = (await replan.run("report on Rome")).task_id
        await replan.answer(task_id, "to ann")
    later = ScriptedModel({"workflow_slots": FILLED, "evaluation": verdict()})
    async with Replan(later, tools, **where) as replan:
        done = await replan.resume(task_id)
    assert done.succeeded, done.failure
    assert "PLAN-REPORT" in told(later, "workflow_slots")
    assert "JUDGE-REPORT" in told(later, "evaluation")
    assert sent[0]["text"] == "About Rome (2): Rome is large"


async def test_a_workflow_whose_tools_are_not_here_is_not_offered(files: Path) -> None:
    model = ScriptedModel(
        {"execution_plan": plan(step("a", "look_up", parameters={"city": "Rome"})), "evaluation": verdict()}
    )
    async with Replan(model, [look_up], db=files / "log.db", workflows=files / "flows") as replan:
        assert (await replan.run("look up Rome")).succeeded
    assert "city-report" not in told(model, "execution_plan")


async def test_guidance_for_everything_goes_with_every_task_also_with_a_plan_that_was_given(
    files: Path,
) -> None:
    (files / "scenes" / "sums.md").unlink()
    (files / "scenes" / "report.md").write_text("---\ntask_type: default\n---\nBE-BRIEF\n")
    model = ScriptedModel(
        {"execution_plan": plan(step("a", "look_up", parameters={"city": "Rome"})), "evaluation": verdict()}
    )
    async with made(files, model, scenes=True) as replan:
        assert (await replan.run("look up Rome")).succeeded
        assert (
            await replan.run("look", plan=plan(step("a", "look_up", parameters={"city": "Oslo"})))
        ).succeeded
    assert ["BE-BRIEF" in one.turns[0].text for one in model.requests] == [True, True, True]
    assert "Kinds of task" not in told(model, "execution_plan"), "there is nothing to choose"


async def test_what_fails_of_a_workflow_s_plan_is_repaired_and_made_anew_as_of_any_other(files: Path) -> None:
    """With the guidance of its kind for whoever reflects and plans anew; a plan that is made anew comes from no workflow."""

    @tool(effect="reads", name="look_up")
    def away(city: str) -> dict[str, Any]:
        """Look up a city."""
        if city == "Rome":
            return {"text": "Rome is large", "size": 7}
        raise ValueError(f"there is no city {city}; it may be written otherwise")

    (files / "scenes" / "report.md").write_text(SCENE + "\n# Reflection\nREFLECT-REPORT\n")
    wrong = {"slots": {"city": "Rmoe", "to": "ann"}}
    anew = plan(
        step("look2", "look_up", parameters={"city": "Rome"}),
        step("mail2", "send", parameters={"to": "ann", "text": "${look2.output.text}"}),
    )
    proposal = reflection("replan", {"advice": "write it otherwise"}, category="tool_error")
    model = ScriptedModel(
        {
            "execution_plan": [NAMED, anew],
            "workflow_slots": wrong,
            "step_reflection": proposal,
            "evaluation": verdict(),
        }
    )
    async with Replan(
        model, [away, send], db=files / "log.db", workflows=files / "flows", scenes=files / "scenes"
    ) as replan:
        done = await replan.run("report on Rome to ann")
    assert done.succeeded, done.failure
    assert sent == [{"to": "ann", "text": "Rome is large", "note": ""}]
    assert "REFLECT-REPORT" in told(model, "step_reflection")
    later = [one for one in model.requests if one.schema_name == "execution_plan"][1].turns[0].text
    assert "PLAN-REPORT" in later
    assert "# Workflows" not in later


async def test_of_very_many_workflows_those_are_shown_that_are_like_the_task(files: Path) -> None:
    for n in range(200):
        text = WORKFLOW.replace("city-report", f"other-{n}").replace("Look up a city", f"Do the {n}th thing")
        (files / "flows" / f"{n}.yaml").write_text(text)
    model = ScriptedModel({"execution_plan": NAMED, "workflow_slots": FILLED, "evaluation": verdict()})
    async with made(files, model) as replan:
        assert (await replan.run("Look up a city and send what you find about Rome to ann, twice")).succeeded
    first = told(model, "execution_plan")
    assert "- city-report(" in first
    assert first.count("- other-") == 29


async def test_an_answer_with_steps_and_a_workflow_falls_back_to_its_own_steps(files: Path) -> None:
    both = {**plan(step("a", "look_up", parameters={"city": "Rome"})), "workflow_id": "city-report"}
    cannot = {"slots": {}, "cannot": "nobody is to be told"}
    model = ScriptedModel({"execution_plan": both, "workflow_slots": cannot, "evaluation": verdict()})
    async with made(files, model) as replan:
        done = await replan.run("look up Rome")
    assert done.succeeded
    assert asked(model) == ["execution_plan", "workflow_slots", "evaluation"]
    assert sent == []


async def test_in_a_condition_that_is_waited_for_a_slot_is_a_literal_too(files: Path) -> None:
    (files / "flows" / "wait.yaml").write_text(
        "id: wait\ndescription: d\nslots: {text: {type: string}}\nsteps:\n"
        "  - {step_id: w, tool: wait_for_condition, parameters: {tool: look_up, parameters: {city: '${slots.text}'},"
        " condition: 'output.text == ${slots.text}', every_secs: 1, limit_secs: 1}}\n"
    )
    async with made(files, evaluation="steps") as replan:
        evil = "Rome' || 'a' == 'a"
        planned = await replan.plan(workflow="wait", slots={"text": evil})
        assert planned.steps[0].parameters["condition"] == f'output.text == `"{evil}"`'
        assert not (await replan.run(workflow="wait", slots={"text": evil})).succeeded


async def test_a_fork_with_a_plan_of_its_own_comes_from_no_workflow(files: Path) -> None:
    async with made(files, evaluation="steps") as replan:
        first = await replan.run(workflow="city-report", slots={"city": "Rome", "to": "ann"})
        fork = await replan.fork(
            first.task_id, at=3, plan=plan(step("q", "look_up", parameters={"city": "Oslo"}))
        )
        assert (await replan.wait(fork)).succeeded
        log = await replan.history(fork)
    planned = [one.event for one in log if isinstance(one.event, PlanGenerated)]
    assert planned[-1].workflow_id is None


async def test_slots_that_are_too_large_or_no_json_are_refused_and_large_ones_are_written_beside_the_loop(
    files: Path,
) -> None:
    async with made(files, evaluation="steps") as replan:
        for city, wrong in (("x" * 1_000_001, "at most 1,000,000"), (float("nan"), "JSON")):
            with pytest.raises(InputError, match=wrong):
                await replan.run(workflow="city-report", slots={"city": city, "to": "ann"})
        large = "${look} " * 40_000
        assert (await replan.run(workflow="city-report", slots={"city": large, "to": "ann"})).succeeded
    assert sent[0]["text"] == f"About {large} (1): {large} is large"


@pytest.mark.parametrize(
    "no", [{"question": "Really?"}, {"needs_confirmation": True}, {"status": "rejected"}]
)
async def test_a_workflow_that_is_named_beside_a_question_or_a_no_is_not_begun(
    files: Path, no: JsonObject
) -> None:
    steps = plan(step("a", "look_up", parameters={"city": "Rome"}))
    model = ScriptedModel({"execution_plan": [NAMED | no, steps], "evaluation": verdict()})
    async with made(files, model) as replan:
        await replan.run("report on Rome to ann")
    assert model.calls["workflow_slots"] == 0
    selected = {"tools": [{"tool_id": "look_up", "score": 90}], "workflow_id": "city-report", **no}
    model = ScriptedModel({"tool_selection": selected, "execution_plan": steps, "evaluation": verdict()})
    async with made(files, model, two_stage_tool_threshold=1) as replan:
        done = await replan.run("report on Rome to ann")
        log = await replan.history(done.task_id)
    assert asked(model) == ["tool_selection", "execution_plan", "evaluation"]
    (found,) = [one.event for one in log if isinstance(one.event, ToolSelectionCompleted)]
    assert "beside a question or a no" in found.dropped[0]
    assert sent == []


async def test_a_filler_in_place_of_a_question_or_a_no_is_none(files: Path) -> None:
    filled = FILLED | {
        "missing": [],
        "ask_first": "none",
        "cannot": "N/A",
        "Questions": [False],
        "question": False,
    }
    model = ScriptedModel({"execution_plan": NAMED, "workflow_slots": filled, "evaluation": verdict()})
    async with made(files, model) as replan:
        assert (await replan.run("report on Rome to ann, twice")).succeeded
    assert len(sent) == 1


QUESTION = "Which Ann?"
FORMS: list[Any] = [
    *(QUESTION, [QUESTION], {"question": QUESTION}, [{"question": QUESTION, "why": "two"}], {"to": QUESTION}, True, 1, [True]),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(
    "name", ["ask_first", "askFirst", "ask-first", "ASK_FIRST", "ask first", "cannot", "Cannot", "questions"]
)
async def test_a_question_or_a_no_beside_slots_is_heard_in_any_form_and_spelling(
    files: Path, name: str, form: Any
) -> None:
    steps = plan(step("a", "look_up", parameters={"city": "Rome"}))
    answers = {"execution_plan": [NAMED, steps], "workflow_slots": FILLED | {name: form}}
    async with made(files, ScriptedModel(answers | {"evaluation": verdict()})) as replan:
        await replan.run("report on Rome to ann, twice")
    assert sent == []


@pytest.mark.parametrize(
    "lacks",
    [
        {"to": QUESTION},
        [{"slot": "to", "question": QUESTION}],
        [["to"]],
        {"slots": ["to"]},
        True,
        "to",
        ["x"],
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["missing", "Missing"])
async def test_what_is_missing_is_heard_in_any_form(files: Path, name: str, lacks: Any) -> None:
    steps = plan(step("a", "look_up", parameters={"city": "Rome"}))
    answers = {"execution_plan": [NAMED, steps], "workflow_slots": FILLED | {name: lacks}}
    async with made(files, ScriptedModel(answers | {"evaluation": verdict()})) as replan:
        await replan.run("report on Rome to ann, twice")
    assert sent == []


async def test_a_value_that_is_given_and_named_as_missing_is_none(files: Path) -> None:
    steps = plan(step("a", "look_up", parameters={"city": "Rome"}))
    slots = FILLED["slots"] | {"copies": 0.5}
    filled = {"slots": slots, "missing": ["copies"]}
    answers = {"execution_plan": [NAMED, steps], "workflow_slots": filled, "evaluation": verdict()}
    async with made(files, ScriptedModel(answers)) as replan:
        await replan.run("report on Rome to ann, twice")
    assert sent == []


async def test_a_question_about_a_slot_that_may_stay_empty_is_put_to_the_person(files: Path) -> None:
    filled = FILLED | {"missing": ["copies"], "ask_first": "How many copies?"}
    model = ScriptedModel({"execution_plan": NAMED, "workflow_slots": filled})
    async with made(files, model, interactive=True) as replan:
        waiting = await replan.run("report on Rome to ann, with some copies")
    assert waiting.status == "waiting"
    assert "How many copies?" in str(waiting.waiting_for)
    assert asked(model) == ["execution_plan", "workflow_slots"]
    assert sent == []


async def test_a_slot_that_may_stay_empty_and_is_named_as_missing_alone_stays_so(files: Path) -> None:
    filled = FILLED | {"missing": ["note"]}
    model = ScriptedModel({"execution_plan": NAMED, "workflow_slots": filled, "evaluation": verdict()})
    async with made(files, model) as replan:
        assert (await replan.run("report on Rome to ann, twice")).succeeded
    assert [one["note"] for one in sent] == [""]


@pytest.mark.parametrize(
    "asking", [{"ask_first": [QUESTION]}, {"askFirst": QUESTION}, {"questions": [QUESTION]}], ids=str
)
async def test_a_question_in_place_of_slots_is_put_to_the_person_in_any_form(
    files: Path, asking: JsonObject
) -> None:
    model = ScriptedModel({"execution_plan": NAMED, "workflow_slots": asking})
    async with made(files, model, interactive=True) as replan:
        waiting = await replan.run("report on Rome to Ann")
    assert waiting.status == "waiting"
    assert QUESTION in str(waiting.waiting_for)
    assert asked(model) == ["execution_plan", "workflow_slots"]
    assert sent == []


BESIDE = [
    {"error": "I must not send without leave"},
    {"dry_run": True},
    {"when": "false"},
    {"success": False},
    {"zebra": 5},
    {"approve": "no"},
]


@pytest.mark.parametrize("beside", BESIDE, ids=str)
async def test_what_stands_beside_a_workflow_s_name_is_held_to_what_fields_beside_steps_are(
    files: Path, beside: JsonObject
) -> None:
    model = ScriptedModel({"execution_plan": [NAMED | beside] * 4, "workflow_slots": FILLED})
    async with made(files, model) as replan:
        done = await replan.run("report on Rome to ann")
        log = await replan.history(done.task_id)
    assert not done.succeeded
    assert model.calls["workflow_slots"] == 0
    assert any(isinstance(one.event, PlanRejected) for one in log)
    assert sent == []


@pytest.mark.parametrize("beside", [*BESIDE, {"workflow_id": "delete-all"}, {"workflow_id": None}], ids=str)
async def test_what_stands_beside_slots_is_held_to_the_same(files: Path, beside: JsonObject) -> None:
    steps = plan(step("a", "look_up", parameters={"city": "Rome"}))
    model = ScriptedModel(
        {
            "execution_plan": [NAMED, steps],
            "workflow_slots": [FILLED | beside] * 2,
            "evaluation": verdict(),
        }
    )
    async with made(files, model) as replan:
        await replan.run("report on Rome to ann, twice")
    assert model.calls["workflow_slots"] == 2, "it was told once what is wrong"
    assert sent == []


@pytest.mark.parametrize(
    "beside",
    [{"workflow_id": "city-report"}, {"error": "none"}, {"dry_run": False}, {"summary": "As asked."}],
)
async def test_what_says_nothing_beside_slots_is_passed_over(files: Path, beside: JsonObject) -> None:
    model = ScriptedModel(
        {"execution_plan": NAMED, "workflow_slots": FILLED | beside, "evaluation": verdict()}
    )
    async with made(files, model) as replan:
        assert (await replan.run("report on Rome to ann, twice")).succeeded
    assert len(sent) == 1
