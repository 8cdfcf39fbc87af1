from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.reflection import Adjustment, Strategy
from replan.reasoning.diagnosis.read_overall_reflection import read_overall_reflection as read
from replan.reasoning.prompting.ask import Violations, understand


def strategy(raw: Any, should_replan: Any = True) -> Strategy | None:
    return read({"should_replan": should_replan, "replanning_strategy": raw}).replanning_strategy


def test_a_full_answer_is_read_as_it_stands() -> None:
    answer = {
        "problem_nature": "tools",
        "should_replan": True,
        "reflection_text": "it was the tool",
        "root_causes": ["a", "b"],
        "incorrect_assumptions": ["c"],
        "alternative_approaches": ["d"],
        "optimization_suggestions": ["e"],
        "improvement_suggestions": ["f"],
        "lessons_learned": ["g"],
        "replanning_strategy": {"type": "replan_from_step", "step_id": "step_2", "reason": "r"},
        "done_in_substance": False,
        "ask": "",
    }
    found = read(answer).model_dump(
        mode="json", exclude_unset=True, exclude={"unread_strategy", "final_output"}
    )
    found["replanning_strategy"] = {k: v for k, v in found["replanning_strategy"].items() if v}
    assert found == answer


def test_what_was_reached_is_read_where_it_ends_and_no_word_of_it_is_a_no_or_a_question() -> None:
    reached = "11 of 12 are closed; ticket 7 could not be: is it locked?"
    said = {"problem_nature": "external", "should_replan": False, "ask": "unlock 7", "final_output": reached}
    found = read(said)
    assert (found.final_output, found.ask) == (reached, "unlock 7")
    assert read({"should_replan": False, "final_output": None}).final_output == ""
    again = {"should_replan": True, "replanning_strategy": "full_replan", "final_output": reached}
    assert (read(again).should_replan, read(again).final_output) == (True, "")


@pytest.mark.parametrize("written", ["N/A", "None", "none.", "-", " ", None, [], "no"])
def test_a_filler_asks_nobody_anything(written: Any) -> None:
    assert read({"should_replan": False, "ask": written}).ask == ""


def test_only_the_decision_is_needed() -> None:
    found = read({"should_replan": "no"})
    assert (found.should_replan, found.replanning_strategy, found.done_in_substance) == (False, None, False)
    assert found.problem_nature == "decomposition"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"shouldReplan": "YES", "root_causes": "one"}, id="humps, a word, one text"),
        pytest.param({"reflection": {"should_replan": True, "root_causes": ["one"]}}, id="one level more"),
        pytest.param({"Should Replan": True, "Root Cause": "one"}, id="words as names"),
    ],
)
def test_names_and_lists_are_read_tolerantly(answer: Any) -> None:
    found = read(answer)
    assert (found.should_replan, found.root_causes) == (True, ("one",))


@pytest.mark.parametrize(
    ("written", "nature"),
    [
        pytest.param("parameters", "parameters", id="as it is"),
        pytest.param("Parameter Error", "parameters", id="a category"),
        pytest.param("tool_error", "tools", id="a category of tools"),
        pytest.param("planning", "decomposition", id="another word"),
        pytest.param("SERVER", "server", id="capitals"),
        pytest.param("bad luck", "decomposition", id="unknown: the one that excuses nothing"),
        pytest.param(7, "decomposition", id="no text"),
    ],
)
def test_natures(written: Any, nature: str) -> None:
    assert read({"should_replan": True, "problem_nature": written}).problem_nature == nature


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param("full_replan", Strategy(type="full_replan"), id="a bare word"),
        pytest.param("Full Replan", Strategy(type="full_replan"), id="words"),
        pytest.param('{"type": "full_replan"}', Strategy(type="full_replan"), id="JSON in a text"),
        pytest.param({"full_replan": {}}, Strategy(type="full_replan"), id="type as the key"),
        pytest.param({"strategy": "FULL-REPLAN"}, Strategy(type="full_replan"), id="another name for the type"),
        pytest.param(
            {"type": "replan_from_step", "step": "step_2", "why": "r"},
            Strategy(type="replan_from_step", step_id="step_2", reason="r"),
            id="step",
        ),
        pytest.param(
            {"type": "replan_from_step", "step_ids": ["step_2"]},
            Strategy(type="replan_from_step", step_id="step_2"),
            id="a list of one",
        ),
        pytest.param(
            {"type": "replan_from_step", "step_id": 2}, Strategy(type="replan_from_step", step_id="step_2"), id="a number"
        ),
        pytest.param(
            {"type": "skip", "steps": "step_2, step_3"},
            Strategy(type="skip_steps", step_ids=("step_2", "step_3")),
            id="ids in one text",
        ),
        pytest.param(
            {"type": "skip_steps", "step_id": "step_2"}, Strategy(type="skip_steps", step_ids=("step_2",)), id="one id"
        ),
        pytest.param(
            {"type": "skip_steps", "data": {"step_ids": [{"step_id": "step_2"}]}},
            Strategy(type="skip_steps", step_ids=("step_2",)),
            id="in data, as objects",
        ),
        pytest.param(
            {"type": "add_remediation_steps", "step_id": "step_2", "suggestions": "unlock it"},
            Strategy(type="add_remediation_steps", step_id="step_2", suggestions=("unlock it",)),
            id="one suggestion",
        ),
        pytest.param(
            {"type": "add_remediation_steps", "steps": ["unlock it", {"tool": "open"}]},
            Strategy(type="add_remediation_steps", suggestions=("unlock it", "tool: open")),
            id="suggestions called steps",
        ),
        pytest.param(
            {"type": "adjust_dependencies", "adjustments": [{"step": "step_3", "add": "step_2", "remove": ["step_1"]}]},
            Strategy(
                type="adjust_dependencies",
                adjustments=(Adjustment(step_id="step_3", add=("step_2",), remove=("step_1",)),),
            ),
            id="adjustments",
        ),
        pytest.param(
            {"type": "adjust_dependencies", "adjustments": {"step_3": {"add": ["step_2"]}}},
            Strategy(type="adjust_dependencies", adjustments=(Adjustment(step_id="step_3", add=("step_2",)),)),
            id="adjustments by step",
        ),
        pytest.param(None, None, id="null"),
        pytest.param("none", None, id="none in words"),
        pytest.param({}, None, id="empty"),
    ],
)  # fmt: skip
def test_strategies(raw: Any, expected: Strategy | None) -> None:
    assert strategy(raw) == expected


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param({}, "has no should_replan", id="nothing"),
        pytest.param({"should_replan": "perhaps"}, "not 'perhaps'", id="no truth value"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_out_is_refused_in_words(answer: Any, says: str) -> None:
    with pytest.raises(Violations, match=says):
        read(answer)


@pytest.mark.parametrize("word", ["pray", 5])
def test_an_unknown_strategy_is_noted_where_it_would_be_followed(word: Any) -> None:
    found = read({"should_replan": True, "replanning_strategy": word})
    assert found.replanning_strategy is None
    assert f"'{word}' is none of full_replan" in found.unread_strategy
    assert read({"should_replan": False, "replanning_strategy": word}).unread_strategy == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "data", "step_id", "steps", "adjustments", "add", "suggestions", "full_replan"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.booleans() | JSON,
    JSON,
    st.dictionaries(st.sampled_from(["ask", "root_causes", "problem_nature"]), JSON),
)
def test_whatever_is_answered_is_read_or_refused(should: Any, raw: Any, rest: dict[str, Any]) -> None:
    with suppress(Violations):
        found = read({**rest, "should_replan": should, "replanning_strategy": raw})
        json.dumps(found.model_dump(mode="json"))


@given(st.text(max_size=60) | JSON.map(json.dumps))
def test_no_text_makes_it_raise_anything_else(text: str) -> None:
    with suppress(Violations):
        understand(text, (), read)


@pytest.mark.parametrize("beside", [{"verdict": "failed"}, {"error": "I could not judge"}, {"passed": False}])
def test_done_beside_something_else_is_asked_about(beside: dict[str, Any]) -> None:
    said = {"should_replan": False, "problem_nature": "external", "done_in_substance": True}
    assert read({**said, "summary": "well", "confidence": 1}).done_in_substance
    with pytest.raises(Violations, match="which says otherwise"):
        read({**said, **beside})
    assert not read({**said, "done_in_substance": False, **beside}).done_in_substance
