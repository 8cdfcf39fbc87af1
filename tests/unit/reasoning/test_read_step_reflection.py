from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.reflection import ACTION_TYPES, StepReflection
from replan.core.types import Fault, Step, ToolSpec
from replan.reasoning.diagnosis.read_step_reflection import read_step_reflection
from replan.reasoning.prompting.ask import Violations, understand
from replan.reasoning.prompting.recovery_view import FailureView
from replan.reasoning.prompting.view import TaskView

TEXT = {"type": "string"}
TOOL = ToolSpec(
    id="print_label", parameters={"type": "object", "properties": {"size": TEXT, "name": TEXT, "memo": TEXT}}
)
STAMP = ToolSpec(id="stamp", aliases=("Stamp It",))
TAKES_PARAMS = ToolSpec(id="run", parameters={"type": "object", "properties": {"params": {"type": "object"}}})


def view(**changes: Any) -> FailureView:
    fields: dict[str, Any] = {
        "task": TaskView(description="x"),
        "step": Step(step_id="step_1", tool="print_label"),
        "place": "",
        "tool": TOOL,
        "parameters": {},
        "fault": Fault(category="tool_error", kind="tool", message="no"),
        "tools": [TOOL, STAMP],
        "substitutes": [],
        "done": [],
        "tries": [],
        "readings": [],
        "allowed": ACTION_TYPES[:5],
    }
    return FailureView(**fields | changes)


def read(answer: Any, **changes: Any) -> StepReflection:
    return read_step_reflection(answer, view(**changes))


def action(answer: Any, **changes: Any) -> tuple[str, Any]:
    found = read(answer, **changes).suggested_action
    return found.type, found.data


def suggested(kind: Any, data: Any = None, **beside: Any) -> Any:
    return {"suggested_action": {"type": kind, **({} if data is None else {"data": data}), **beside}}


def test_a_full_answer_is_read_as_it_stands() -> None:
    answer = {
        "analysis": "first failure",
        "root_cause": "A9 is no size",
        "root_cause_category": "parameter_error",
        "is_recoverable": True,
        "confidence": 0.8,
        "suggested_action": {"type": "retry_with_params", "data": {"size": "A6"}},
        "alternative_solutions": ["A5"],
        "improvement_suggestions": ["look the sizes up"],
    }
    assert read(answer).model_dump(mode="json") == answer


def test_what_is_left_out_has_its_default() -> None:
    found = read(suggested("replan", {"advice": "look it up"}))
    assert (found.root_cause_category, found.confidence, found.is_recoverable) == ("unknown", 0.5, True)
    assert (found.root_cause, found.analysis, found.alternative_solutions) == ("", "", ())


@pytest.mark.parametrize(
    ("written", "category"),
    [
        pytest.param("parameter_error", "parameter_error", id="as it is"),
        pytest.param("Parameter Error", "parameter_error", id="words"),
        pytest.param("SERVER-ERROR", "server_error", id="capitals and a hyphen"),
        pytest.param("toolError", "tool_error", id="a hump"),
        pytest.param("external", "external_error", id="without its ending"),
        pytest.param("gremlins", "unknown", id="an unknown word"),
        pytest.param(None, "unknown", id="null"),
        pytest.param(["tool_error"], "unknown", id="no text"),
    ],
)
def test_categories(written: Any, category: str) -> None:
    assert read({**suggested("replan"), "root_cause_category": written}).root_cause_category == category


@pytest.mark.parametrize(
    ("written", "confidence"),
    [
        pytest.param(0.7, 0.7, id="a fraction"),
        pytest.param(85, 0.85, id="percent"),
        pytest.param(1, 1.0, id="one is all"),
        pytest.param(100, 1.0, id="a hundred percent"),
        pytest.param(0, 0.0, id="none"),
        pytest.param("85 %", 0.85, id="percent in words"),
        pytest.param("1%", 0.01, id="one percent in words"),
        pytest.param("0.7", 0.7, id="a text"),
        pytest.param("8/10", 0.8, id="of ten"),
        pytest.param("0,5", 0.5, id="a comma"),
        pytest.param("high", 0.9, id="a word"),
        pytest.param("dunno", 0.5, id="no number"),
        pytest.param(101, 0.5, id="above"),
        pytest.param(-1, 0.5, id="below"),
        pytest.param(10**400, 0.5, id="far too large"),
        pytest.param(True, 0.5, id="a truth value"),
        pytest.param("3/0", 0.5, id="of nothing"),
    ],
)
def test_confidence(written: Any, confidence: float) -> None:
    assert read({**suggested("replan"), "confidence": written}).confidence == pytest.approx(confidence)


@pytest.mark.parametrize(
    ("category", "written", "recoverable"),
    [
        pytest.param("unknown", "no", False, id="in words, where the category tells nothing"),
        pytest.param("server_error", "True", False, id="what goes with the category, whatever is told"),
        pytest.param("server_error", None, False, id="left out: what goes with a server's fault"),
        pytest.param(
            "external_error", "perhaps", False, id="not understood: what goes with an outside fault"
        ),
        pytest.param("parameter_error", None, True, id="left out: what goes with all else"),
    ],
)
def test_recoverable(category: str, written: Any, recoverable: bool) -> None:
    answer = {**suggested("replan"), "root_cause_category": category, "is_recoverable": written}
    assert read(answer).is_recoverable is recoverable


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        *(
            pytest.param(name, name, id=name)
            for name in ("repair_step", "replan", "trigger_overall_reflection")
        ),
        pytest.param("Repair Step", "repair_step", id="words"),
        pytest.param("REPAIR-STEP", "repair_step", id="capitals and a hyphen"),
        pytest.param("repairStep", "repair_step", id="a hump"),
        pytest.param("replan_single_step", "repair_step", id="another name"),
        *(
            pytest.param(name, "trigger_overall_reflection", id=f"{name} ends no task")
            for name in ("stop", "abort", "give_up", "Give Up", "ask_user", "cancel", "escalate")
        ),
    ],
)
def test_types(written: str, kind: str) -> None:
    assert action(suggested(written))[0] == kind
    assert action({"suggested_action": written})[0] == kind


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(suggested("repair_step", "use rooms"), {"hint": "use rooms"}, id="a text"),
        pytest.param(suggested("repair_step", '{"hint": "use rooms"}'), {"hint": "use rooms"}, id="JSON in a text"),
        pytest.param(suggested("repair_step", hint="use rooms"), {"hint": "use rooms"}, id="beside the type"),
        pytest.param(suggested("repair_step", {"reason": "use rooms"}), {"hint": "use rooms"}, id="another name"),
        pytest.param(
            suggested("repair_step", {"hint": "use rooms", "field": "id"}), {"hint": "use rooms; field: id"}, id="more"
        ),
        pytest.param(suggested("repair_step", ["use", "rooms"]), {"hint": "use; rooms"}, id="a list"),
        pytest.param(suggested("repair_step", {}), {}, id="nothing"),
        pytest.param(
            {"suggested_action": "repair_step", "data": "use rooms"}, {"hint": "use rooms"}, id="beside a bare word"
        ),
        pytest.param(
            {"suggested_action": "repair_step", "hint": "use rooms"}, {"hint": "use rooms"}, id="hint beside a bare word"
        ),
        pytest.param(
            {"suggested_action": '{"type": "repair_step", "data": "use rooms"}'}, {"hint": "use rooms"}, id="all a text"
        ),
        pytest.param({"suggested_action": {"repair_step": "use rooms"}}, {"hint": "use rooms"}, id="type as the key"),
        pytest.param({"suggested_action": [{"type": "repair_step", "data": "use rooms"}]}, {"hint": "use rooms"}, id="a list of one"),
        pytest.param({"type": "repair_step", "data": "use rooms"}, {"hint": "use rooms"}, id="no level between"),
        pytest.param({"reflection": suggested("repair_step", "use rooms")}, {"hint": "use rooms"}, id="one level more"),
        pytest.param({"suggestedAction": {"name": "repair_step", "data": "use rooms"}}, {"hint": "use rooms"}, id="other names"),
    ],
)  # fmt: skip
def test_words_are_found_wherever_they_stand(answer: Any, expected: Any) -> None:
    assert action(answer) == ("repair_step", expected)


@pytest.mark.parametrize(
    ("data", "tool", "expected"),
    [
        pytest.param({"size": "A6"}, TOOL, {"size": "A6"}, id="plain"),
        pytest.param('{"size": "A6"}', TOOL, {"size": "A6"}, id="JSON in a text"),
        pytest.param({"parameters": {"size": "A6"}}, TOOL, {"size": "A6"}, id="wrapped"),
        pytest.param({"params": '{"size": "A6"}'}, TOOL, {"size": "A6"}, id="wrapped as a text"),
        pytest.param(
            {"tool_id": "Print Label", "parameters": {"size": "A6"}}, TOOL, {"size": "A6"}, id="the same tool named"
        ),
        pytest.param(
            {"tool_id": "stamp", "parameters": {"size": "A6"}},
            TOOL,
            {"tool_id": "stamp", "parameters": {"size": "A6"}},
            id="another tool named: not for this one",
        ),
        pytest.param({"params": {"x": 1}}, TAKES_PARAMS, {"params": {"x": 1}}, id="a parameter of that name"),
        pytest.param({"parameters": {"params": {}}}, TAKES_PARAMS, {"params": {}}, id="wrapped all the same"),
        pytest.param({"parameters": {"x": 1}}, None, {"x": 1}, id="wrapped, for a tool that does not exist"),
        pytest.param([{"name": "size", "value": "A6"}], TOOL, {"size": "A6"}, id="a list of pairs"),
        pytest.param({"name": "Bo", "memo": "x"}, TOOL, {"name": "Bo", "memo": "x"}, id="parameters called name"),
        pytest.param({"size": None}, TOOL, {"size": None}, id="null is a value"),
        pytest.param({"size": "***", "memo": "x"}, TOOL, {"memo": "x"}, id="a mask is none"),
        pytest.param({"memo": "long… (5000 characters)", "size": "A6"}, TOOL, {"size": "A6"}, id="a value seen in part"),
        pytest.param({}, TOOL, {}, id="empty: for code to refuse"),
        pytest.param(None, TOOL, {}, id="none: for code to refuse"),
    ],
)  # fmt: skip
def test_new_parameters(data: Any, tool: ToolSpec | None, expected: Any) -> None:
    given = {"memo": "long… (5000 characters)"}
    assert action(suggested("retry_with_params", data), tool=tool, parameters=given) == (
        "retry_with_params",
        expected,
    )


def test_new_parameters_may_stand_beside_the_type() -> None:
    assert action(suggested("retry_with_params", size="A6", name="Bo"))[1] == {"size": "A6", "name": "Bo"}
    assert action(suggested("retry_with_params", parameters={"size": "A6"}, reason="it fits"))[1] == {
        "size": "A6"
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param({"tool_id": "stamp", "parameters": {"a": 1}}, {"tool_id": "stamp", "parameters": {"a": 1}}, id="plain"),
        pytest.param({"tool": "STAMP", "params": '{"a": 1}'}, {"tool_id": "stamp", "parameters": {"a": 1}}, id="other names"),
        pytest.param("stamp it", {"tool_id": "stamp"}, id="an alias alone"),
        pytest.param({"tool": {"id": "stamp", "parameters": {"a": 1}}}, {"tool_id": "stamp", "parameters": {"a": 1}}, id="one level down"),
        pytest.param({"tool_id": "teleport"}, {"tool_id": "teleport"}, id="unknown: for code to refuse"),
        pytest.param({"tool_id": "stamp", "parameters": {"pin": "***"}}, {"tool_id": "stamp", "parameters": {}}, id="a mask is no value"),
    ],
)  # fmt: skip
def test_another_tool(data: Any, expected: Any) -> None:
    assert action(suggested("retry_with_tool", data)) == ("retry_with_tool", expected)
    assert action(suggested("verify_outcome", data)) == ("verify_outcome", expected)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            {"happened": True, "output": {"id": 1}, "evidence": '"id": 1'},
            {"happened": True, "output": {"id": 1}, "evidence": '"id": 1'},
            id="plain",
        ),
        pytest.param(
            {"took_effect": "no", "quote": ["a", "b"]},
            {"happened": False, "evidence": "a; b"},
            id="other names",
        ),
        pytest.param(
            {"happened": False, "output": None, "evidence": "none"},
            {"happened": False, "evidence": "none"},
            id="null is no output",
        ),
    ],
)
def test_a_settlement(data: Any, expected: Any) -> None:
    assert action(suggested("settle_outcome", data)) == ("settle_outcome", expected)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param({}, "has no suggested_action", id="nothing"),
        pytest.param({"root_cause": "x"}, "has no suggested_action", id="only a cause"),
        pytest.param(["replan"], "has no suggested_action", id="a list"),
        pytest.param(
            suggested("dance"), "'dance' is none of retry_with_params, retry_with_tool", id="unknown"
        ),
        pytest.param({"suggested_action": {"a": 1, "b": 2}}, "has no suggested_action", id="no type"),
        pytest.param({"suggested_action": 5}, "'5' is none of", id="a number"),
        pytest.param(suggested("retry_with_params", "A6"), "has to be an object of parameter", id="a text"),
        pytest.param(
            suggested("retry_with_params", [1]), "has to be an object of parameter", id="a list of values"
        ),
        pytest.param(suggested("retry_with_tool", {}), "has to name a tool", id="no tool"),
        pytest.param(suggested("retry_with_tool", 5), "has to be an object", id="a tool that is a number"),
        pytest.param(
            suggested("retry_with_tool", {"tool_id": "stamp", "parameters": "fast"}),
            "parameters has to be",
            id="text",
        ),
        pytest.param(
            suggested("settle_outcome", {"evidence": "x"}), "`happened`: true or false", id="no verdict"
        ),
        pytest.param(suggested("settle_outcome", {"happened": True}), "as `evidence`", id="no evidence"),
        pytest.param(
            suggested("settle_outcome", {"happened": True, "evidence": "x", "error": "I cannot tell"}),
            "beside .error: I cannot tell., which says otherwise",
            id="a settlement beside a doubt",
        ),
        pytest.param(
            {"bad_example": suggested("repair_step", {"hint": "x"})}, "no suggested_action", id="an example"
        ),
        pytest.param(
            suggested("settle_outcome", "it happened"), "has to be an object", id="a settlement in words"
        ),
    ],
)
def test_what_cannot_be_made_out_is_refused_in_words(answer: Any, says: str) -> None:
    with pytest.raises(Violations, match=says):
        read(answer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "data", "parameters", "tool", "tool_id", "hint", "happened", "evidence", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["confidence", "root_cause", "analysis", "is_recoverable"]), JSON),
    st.sampled_from(ACTION_TYPES) | JSON,
    JSON,
)
def test_whatever_is_answered_is_read_or_refused(rest: dict[str, Any], kind: Any, data: Any) -> None:
    for given_action in ({"type": kind, "data": data}, kind, data, {"type": kind, "x": data}):
        with suppress(Violations):
            found = read({**rest, "suggested_action": given_action})
            assert 0 <= found.confidence <= 1
            assert found.suggested_action.type in ACTION_TYPES
            json.dumps(found.model_dump(mode="json"))


@given(st.text(max_size=60) | JSON.map(json.dumps))
def test_no_text_makes_it_raise_anything_else(text: str) -> None:
    with suppress(Violations):
        understand(text, (), lambda answer: read_step_reflection(answer, view()))


def test_it_reads_what_the_shared_view_holds(failure_view: Callable[..., FailureView]) -> None:
    found = read_step_reflection(suggested("retry_with_tool", "stamp it"), failure_view())
    assert found.suggested_action.data == {"tool_id": "stamp"}


@pytest.mark.parametrize(
    "said",
    [
        {**suggested("retry_with_params", {"size": "A4"}), "is_recoverable": True, "isRecoverable": False},
        suggested("retry_with_params", {"size": "A4"}, Type="trigger_overall_reflection"),
        suggested("retry_with_params", {"size": "A4"}, Data={"size": "A5"}),
        {
            **suggested("retry_with_params", {"size": "A4"}),
            "suggestedAction": {"type": "replan", "data": "no"},
        },
    ],
    ids=["a judgement", "a type", "data", "an action"],
)
def test_two_spellings_of_one_field_that_say_two_things_are_no_diagnosis(said: Any) -> None:
    with pytest.raises(Violations, match="which is the same field"):
        read(said)


def test_two_spellings_that_say_the_same_are_one() -> None:
    said = {**suggested("retry_with_params", {"size": "A4"}), "is_recoverable": True, "isRecoverable": True}
    assert read(said).suggested_action.type == "retry_with_params"
