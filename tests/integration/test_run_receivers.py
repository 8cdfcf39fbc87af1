"""A secret of the metadata reaches the tool that needs it and nothing else, whoever made the plan and whatever fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import reflection

from replan import Replan, tool
from replan.core.tools.rules import ToolRule, ToolRules
from replan.testing import ScriptedModel, virtual_time

KEY = "Zq7-hunter-TopSecret-9941"
METADATA = {"api_key": KEY, "city": "Oslo"}
ANY: dict[str, Any] = {"type": "object", "properties": {"text": {}, "to": {"type": "string"}}}
LOOK: dict[str, Any] = {"type": "object", "properties": {"q": {}, "text": {}}}


def tools(**more: Any) -> dict[str, Any]:
    return {
        "look": FakeTool(output="found", parameters=LOOK, spec={"secrets": ("text",)}),
        "mail": FakeTool(output="sent", parameters=ANY, effect="once"),
        **more,
    }


def run(wanted: Any, rules: ToolRules | None = None, given: bool = False, **answers: Any) -> Ran:
    async def main() -> Ran:
        fakes = answers.pop("tools", None) or tools()
        script = {"execution_plan": wanted, "evaluation": verdict(), **answers}
        made = await bench(fakes, script, rules=rules)
        task = {"wanted": wanted} if given else {}
        ran = await made.run(**task, metadata=METADATA, text=f"Tell them, but not {KEY}.")
        return ran.check()

    return virtual_time(main())


def calls(ran: Ran) -> dict[str, Any]:
    return {call.tool_id: call.parameters for call in ran.source.calls}


@pytest.mark.parametrize(
    "more",
    [
        {"parameters": {"text": "${metadata.api_key}"}},
        {"parameters": {"text": "the key is ${metadata.api_key}"}},
        {"parameters": {"text": "${values(metadata)}"}},
        {"parameters": {"text": {"${metadata.api_key}": 1}}},
        {"parameters": {"text": "${item}"}, "for_each": ["${metadata.api_key}"]},
    ],
    ids=["by name", "in a text", "all values", "as a key", "as an item"],
)
def test_a_plan_that_sends_a_secret_elsewhere_is_refused_before_anything_runs(more: Any) -> None:
    bad = plan(step("s0", "look", parameters={"q": "x"}), step("s1", "mail", **more))
    good = plan(step("s1", "mail", parameters={"text": "all is well in ${metadata.city}"}))
    ran = run([bad, good])
    assert ran.result.is_success
    assert calls(ran) == {"mail": {"text": "all is well in Oslo"}}
    asked = ran.model.requests[1].turns[-1].text
    assert "is not declared as secret" in asked
    assert 'rules."mail"] secrets = ["text"]' in asked
    assert KEY not in str([request.turns for request in ran.model.requests])
    refused = run(bad, given=True)
    assert not refused.result.is_success, "and so is a plan that is given"
    assert refused.source.calls == []
    assert "is not declared as secret" in refused.result.failure.reason


def test_the_metadata_as_a_whole_and_the_words_of_the_task_go_without_their_secrets() -> None:
    text = {"all": "${metadata}", "said": "${metadata}!", "task": "${task.description}"}
    ran = run(plan(step("s1", "mail", parameters={"text": text})))
    assert ran.result.is_success
    masked = {"api_key": "***", "city": "Oslo"}
    said = json.loads(calls(ran)["mail"]["text"]["said"][:-1])
    assert calls(ran)["mail"]["text"]["all"] == masked == said
    assert calls(ran)["mail"]["text"]["task"] == "Tell them, but not ***."


def test_what_a_rule_declares_as_secret_gets_the_secret_and_is_masked() -> None:
    rules = ToolRules(rules=(("mail", ToolRule(secrets=("text",))),))
    ran = run(plan(step("s1", "mail", parameters={"text": "${metadata.api_key}"})), rules)
    assert ran.result.is_success
    assert calls(ran)["mail"] == {"text": KEY}
    assert KEY not in str([record.event for record in ran.records])


def test_another_tool_in_place_of_a_failed_one_gets_no_secret_that_it_does_not_declare() -> None:
    fakes = tools(look=FakeTool(fail=["broken"] * 9, parameters=LOOK, spec={"secrets": ("text",)}))
    fakes["other"] = FakeTool(output="found", parameters=ANY)
    ran = run(
        plan(step("s1", "look", parameters={"text": "${metadata.api_key}"})),
        tools=fakes,
        step_reflection=[reflection("retry_with_tool", {"tool_id": "other"}, "tool_error")] * 3,
        overall_reflection={
            "problem_nature": "tools",
            "should_replan": False,
            "reflection_text": "no",
            "root_causes": ["x"],
        },
    )
    assert "other" not in calls(ran), "the step fails before the call"
    assert not ran.result.is_success


@tool(effect="reads", secrets=["word"])
def enter(word: str) -> int:
    """Enter with a word."""
    return len(word)


@tool(effect="once")
def post(text: str) -> str:
    """Post a text."""
    return text


async def late(folder: Path) -> tuple[Any, str]:
    both = plan(
        step("a", "enter", parameters={"word": "${metadata.tk2}"}),
        step("b", "post", parameters={"text": "${metadata.tk2}"}),
    )
    good = plan(step("a", "enter", parameters={"word": "${metadata.tk2}"}))
    model = ScriptedModel({"execution_plan": [both, good], "evaluation": verdict()})
    async with Replan(model, [enter, post], db=folder / "log.db") as replan:
        result = await replan.run("do it", metadata={"tk2": KEY})
    return result, model.requests[1].turns[-1].text


@pytest.mark.anyio
async def test_metadata_that_turn_out_to_be_secret_go_nowhere_else_from_then_on(tmp_path: Path) -> None:
    result, asked = await late(tmp_path)
    assert result.is_success
    assert [one.step_id for one in result.steps] == ["a"]
    assert "'post': text is not declared as secret" in asked
