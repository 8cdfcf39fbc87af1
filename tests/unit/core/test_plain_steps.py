"""A plain step (one call, which has succeeded) is told as any other: the short way gives what the long one does."""

from __future__ import annotations

from typing import Any

import pytest
from histories import (
    ALL_DONE,
    FOUND,
    OPENED,
    PLANNED,
    SENT_OF,
    TIMED_OUT,
    answered,
    begun,
    broken,
    called,
    done,
    judged,
    missed,
    planned,
    skipped,
    state_of,
    two_actions,
)

from replan.core import events as e
from replan.core.report.result import CallResult
from replan.core.types import Artifact, Dimensions, Step, unchecked
from replan.run.service.results import plain_result, step_result

TWICE = [
    begun("find"), called(), missed(TIMED_OUT, 0.1), called(attempt=2), answered(), done("find", found=1),
]  # fmt: skip
LARGE = e.CallCompleted(
    call_key="k.1", step_id="find", tool_id="search", artifact=Artifact(artifact_id="art_1", size=9)
)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(ALL_DONE, id="done"),
        pytest.param([*OPENED, PLANNED, *TWICE], id="at the second try"),
        pytest.param([*OPENED, PLANNED, begun("find"), answered(reused=True), done("find")], id="reused"),
        pytest.param([*OPENED, PLANNED, begun("find"), called(), LARGE, done("find")], id="kept apart"),
        pytest.param([*ALL_DONE, judged(), planned(Step(step_id="send", tool="mail"))], id="left out since"),
    ],
)
def test_a_plain_step_is_told_as_any_other(events: list[e.AnyEvent]) -> None:
    state = state_of(events)
    step = state.every_step()[0]
    told, whole = plain_result(step), step_result(state, step)
    assert told is not None
    assert told == whole
    assert told.model_dump_json() == whole.model_dump_json()
    assert repr(told) == repr(whole)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([*OPENED, PLANNED], id="not begun"),
        pytest.param([*OPENED, PLANNED, begun("find"), called()], id="under way"),
        pytest.param([*OPENED, PLANNED, begun("find"), called(), missed(), broken("find")], id="failed"),
        pytest.param([*OPENED, PLANNED, skipped("find", "condition", None)], id="skipped"),
        pytest.param(
            [*OPENED, planned(two_actions()), begun("pair"), called(**{**SENT_OF, "step_id": "pair", "action_id": "b"})],
            id="actions",
        ),
        pytest.param(
            [*OPENED, PLANNED, begun("find", 1), called(index=0), answered(index=0), done("find")], id="items"
        ),
    ],
)  # fmt: skip
def test_any_other_step_is_told_the_long_way(events: list[e.AnyEvent]) -> None:
    assert plain_result(state_of(events).every_step()[0]) is None


def test_what_is_told_of_a_call_may_be_changed_without_changing_the_task() -> None:
    state = state_of([*OPENED, PLANNED, *FOUND])
    told = plain_result(state.steps["find"])
    assert told is not None
    told.calls[0].parameters["q"] = "y"
    assert state.steps["find"].calls[next(iter(state.steps["find"].calls))].parameters == {"q": "x"}


def test_a_value_made_unchecked_is_equal_to_a_checked_one_and_can_be_copied_and_changed() -> None:
    given = {"tool": "t", "status": "succeeded", "parameters": {"a": 1}}
    made, checked = unchecked(CallResult)(**given), CallResult(**given)  # type: ignore[arg-type]
    assert made == checked
    assert made.model_dump() == checked.model_dump()
    assert made.model_copy(update={"attempts": 2}) == checked.model_copy(update={"attempts": 2})
    assert CallResult.model_validate_json(made.model_dump_json()) == made
    with pytest.raises(Exception, match="frozen"):
        made.tool = "other"  # type: ignore[misc]
    dimensions = {"completeness": 1.0, "correctness": 2.0, "efficiency": 3.0, "reliability": 4.0}
    assert unchecked(Dimensions)(**dimensions) == Dimensions(**dimensions)


@pytest.mark.parametrize(
    "changes",
    [{}, {"step_id": "b"}, {"step_id": "b", "tool": "x", "parameters": {"i": 1}, "dependencies": ("a",)}],
)
def test_a_step_made_like_another_is_what_the_long_way_makes(changes: dict[str, Any]) -> None:
    one = Step(step_id="a", parameters={"n": 0}).lean()
    made = one.like(**changes)
    assert made == one.lean(**changes) == one.model_copy(update=changes)
    assert made.model_dump() == one.lean(**changes).model_dump()
    assert (one.step_id, one.parameters) == ("a", {"n": 0}), "the pattern stays as it is"
    assert made.lean() is made
