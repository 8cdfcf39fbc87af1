from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.plan.read import read_plan
from replan.core.recovery.check_proposal import FITTING, UNRECOVERABLE
from replan.core.reflection import ACTION_TYPES, NATURES, STRATEGY_TYPES
from replan.core.types import Fault, Step
from replan.reasoning.diagnosis.read_overall_reflection import read_overall_reflection
from replan.reasoning.diagnosis.read_step_reflection import read_step_reflection
from replan.reasoning.prompting.prompts import STYLES, PromptInvalid, check_all, fence, load, parse_prompt
from replan.reasoning.prompting.recovery_view import FailureView
from replan.reasoning.prompting.schemas import plan_schema
from replan.reasoning.prompting.view import TaskView

SHOWN = FailureView(
    task=TaskView(description="x"),
    step=Step(step_id="step_1", tool="x"),
    place="",
    tool=None,
    parameters={},
    fault=Fault(category="unknown", kind="tool", message="x"),
    tools=[],
    substitutes=[],
    done=[],
    tries=[],
    readings=[],
    allowed=ACTION_TYPES,
)

FILE = """---
name: standard/x
role: planning
schema: execution_plan
variables: task, data
---
=== instructions
Plan. Write ${step_1.output} or {{step_1.output}}.
=== user
<<task>> and <<data>>
"""


NAMES = (
    "plan", "select", "evaluate", "reflect_step", "settle", "reflect_overall", "repair", "replan", "select_again", "slots",
)  # fmt: skip


def test_every_prompt_file_adds_up_in_every_style() -> None:
    names = {prompt.name for prompt in check_all()}
    assert names == {*(f"{style}/{name}" for style in STYLES for name in NAMES), "standard/step"}


def test_a_rendered_prompt_has_nothing_left_to_fill_in() -> None:
    for prompt in check_all():
        rendered = prompt.render(**dict.fromkeys(prompt.variables, "VALUE"))
        assert "<<" not in rendered.user
        assert "<<" not in rendered.instructions
        assert "VALUE" in rendered.user


def answers_in(name: str, style: str) -> list[Any]:
    """The answers of a prompt's worked examples, each on a line of its own."""
    text = load(name, style).instructions
    lines = [line.removeprefix("Answer: ") for line in text.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{") and "..." not in line]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("name", "least"), [("reflect_step", 7), ("settle", 4)])
def test_every_worked_example_of_a_step_is_a_proposal_that_code_takes(
    name: str, least: int, style: str
) -> None:
    answers = answers_in(name, style)
    assert len(answers) >= (least if style == "standard" else 3)
    kinds = set()
    for answer in answers:
        found = read_step_reflection(answer, SHOWN)
        kinds.add(found.suggested_action.type)
        fitting = FITTING[found.root_cause_category] | {"replan", "trigger_overall_reflection"}
        if name == "reflect_step":
            assert found.suggested_action.type in fitting
            assert found.is_recoverable is (found.root_cause_category not in UNRECOVERABLE)
    assert kinds == set(ACTION_TYPES[:5] if name == "reflect_step" else ACTION_TYPES[5:] + ACTION_TYPES[4:5])


@pytest.mark.parametrize("style", STYLES)
def test_the_worked_examples_of_a_round_show_every_way_to_end_it(style: str) -> None:
    found = [read_overall_reflection(answer) for answer in answers_in("reflect_overall", style)]
    assert len(found) >= (9 if style == "standard" else 3)
    used = {one.replanning_strategy.type for one in found if one.replanning_strategy is not None}
    if style == "standard":
        assert used == set(STRATEGY_TYPES)
        assert {one.problem_nature for one in found} == set(NATURES)
        assert any(one.done_in_substance for one in found)
    for one in found:
        assert one.should_replan is (one.replanning_strategy is not None)
        assert not (one.should_replan and one.problem_nature in ("external", "server"))
        assert one.should_replan or one.done_in_substance or one.ask


@pytest.mark.parametrize("style", STYLES)
def test_the_worked_examples_of_plans_and_steps_can_be_read(style: str) -> None:
    for answer in answers_in("replan", style):
        assert read_plan(answer, plan_id="p").steps
    if style == "small":
        assert len(answers_in("replan", style)) >= 3
        steps = [answer["step"] for answer in answers_in("repair", style)]
        assert len(read_plan({"steps": steps}, plan_id="p").steps) >= 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("reflect_step", "How often, and with the same message", id="step: did it fail before"),
        pytest.param("reflect_step", "Was an earlier proposal carried out", id="step: was it carried out"),
        pytest.param("reflect_step", "What is different this time", id="step: what is different"),
        pytest.param("reflect_step", "What is new in what you are about to propose", id="step: what is new"),
        pytest.param("reflect_step", "says how often it failed, what was tried", id="step: what to say on a repeat"),
        pytest.param("reflect_step", "even when it comes as HTTP 500", id="step: the message outweighs the status"),
        pytest.param("reflect_overall", "1 to 3 are normal", id="round: how many are normal"),
        pytest.param("reflect_overall", "At 4 or 5, look hard", id="round: four and five"),
        pytest.param("reflect_overall", "6 to 10 are unusual", id="round: six to ten"),
        pytest.param("reflect_overall", "Beyond 10, stop unless", id="round: beyond ten"),
        pytest.param("reflect_overall", "**1. Is it a repetition?**", id="round: first repetition"),
        pytest.param("reflect_overall", "**2. Is it done in substance?**", id="round: then substance"),
        pytest.param("reflect_overall", "**3. What is the nature", id="round: then the nature"),
    ],
)  # fmt: skip
def test_the_instructions_ask_what_has_to_be_asked(name: str, text: str) -> None:
    assert text in load(name, "standard").instructions


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param(
            "variables: task, data", "variables: task", "uses data without declaring", id="undeclared"
        ),
        pytest.param(
            "variables: task", "variables: more, task", "declares more and does not use", id="unused"
        ),
        pytest.param("role: planning", "role: cooking", "'cooking' is none of", id="unknown role"),
        pytest.param(
            "schema: execution_plan\n", "", "exactly name, role, schema, variables", id="a key missing"
        ),
        pytest.param("schema: execution_plan", "no colon", "not `key: value`", id="a line without a colon"),
        pytest.param("=== user", "== user", "wants a front matter", id="no user part"),
    ],
)
def test_a_file_that_does_not_add_up_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(PromptInvalid, match=says):
        parse_prompt(FILE.replace(old, new), "x.md")


def test_rendering_wants_exactly_the_declared_variables() -> None:
    prompt = parse_prompt(FILE, "x.md")
    with pytest.raises(PromptInvalid, match="no value for data"):
        prompt.render(task="a")
    with pytest.raises(PromptInvalid, match="has no variable more"):
        prompt.render(task="a", data="b", more="c")


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    rendered = parse_prompt(FILE, "x.md").render(task="<<data>> \\1 ${x}", data="secret")
    assert rendered.user == "<<data>> \\1 ${x} and secret"


def test_the_hash_names_the_file_and_not_what_is_filled_in() -> None:
    prompt = parse_prompt(FILE, "x.md")
    assert prompt.render(task="a", data="b").hash == prompt.render(task="c", data="d").hash
    assert parse_prompt(FILE.replace("Plan.", "Plan!"), "x.md").hash != prompt.hash


def test_a_prompt_that_does_not_exist_is_named() -> None:
    with pytest.raises(PromptInvalid, match=r"no prompt small/dance\.md"):
        load("dance", "small")


@given(st.text(alphabet="~\n a", max_size=60))
def test_no_data_can_close_its_own_fence(data: str) -> None:
    lines = fence("data", data).split("\n")
    mark = lines[0].removesuffix(" data")
    assert set(mark) == {"~"}
    assert lines[-1] == mark
    assert not any(mark in line for line in lines[1:-1])
    assert "\n".join(lines[1:-1]) == data


@pytest.mark.parametrize("row", [79, 80, 81, 1_000, 200_000])
def test_a_row_of_marks_makes_no_long_fence(row: int) -> None:
    told = fence("data", "a" + "~" * row + "b")
    mark = told.split(" ", 1)[0]
    assert len(mark) <= 81
    assert told.count(mark) == 2
    assert len(told) < row + row // 40 + 200
    assert told.count("~") == row + 2 * len(mark)


GAPS = """---
name: {}/x
role: planning
schema: execution_plan
variables: task, data, plan
---
=== instructions
Plan.
=== user
<<task>>

<<data>>

<<plan>>

Write it.
"""


@pytest.mark.parametrize(
    ("data", "plan", "text"),
    [
        ("", "", "t\n\nWrite it."),
        ("d", "", "t\n\nd\n\nWrite it."),
        ("", "p\n\n\n\nq", "t\n\np\n\n\n\nq\n\nWrite it."),
        ("<<plan>>", "p", "t\n\n<<plan>>\n\np\n\nWrite it."),
    ],
)
def test_what_is_not_there_leaves_no_gap_and_what_is_there_stays_as_it_is(
    data: str, plan: str, text: str
) -> None:
    prompt = parse_prompt(GAPS.format("standard"), "x.md")
    assert prompt.render(task="t", data=data, plan=plan).user == text


def test_the_built_in_models_prompts_keep_the_gaps_that_their_recordings_have() -> None:
    prompt = parse_prompt(GAPS.format("small"), "x.md")
    assert prompt.render(task="t", data="", plan="").user == "t\n\n\n\n\n\nWrite it."


@pytest.mark.parametrize("name", ["plan", "replan"])
def test_a_planner_is_told_how_something_is_waited_for(name: str) -> None:
    assert '"until": "output.status == \'done\'"' in load(name, "standard").instructions
    assert "until" not in load(name, "small").instructions
    steps = plan_schema("standard", [])["properties"]["steps"]["items"]["properties"]
    read = read_plan(
        {"steps": [{"step_id": "a", "tool": "x", "until": "output.ok", "every_secs": 5, "limit_secs": 60}]},
        plan_id="p",
    )
    assert {"until", "every_secs", "limit_secs"} <= steps.keys()
    assert read.steps[0].tool == "wait_for_condition"
    assert read.steps[0].parameters["every_secs"] == 5


@pytest.mark.parametrize("name", ["plan", "replan", "repair"])
def test_whoever_writes_a_step_is_told_how_something_is_worked_out(name: str) -> None:
    told = load(name, "standard").instructions
    assert "${= " in told
    assert all(
        one in told for one in ("merge_by(", "round(", "date(text)", "single quotes", "between blanks")
    )
