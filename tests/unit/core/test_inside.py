"""The order inside a step: what it costs to read it, however its actions use one another."""

from __future__ import annotations

from typing import Any

import pytest

from cpu_time import cpu
from replan.core.calls.inside import in_order, inside_violations, uses_item
from replan.core.calls.site import ONLY
from replan.core.evaluation.read_since import Readings
from replan.core.references.refs import Reference
from replan.core.state.progress import CallState, Output, StepState
from replan.core.types import Action, Step
from replan.errors import UnresolvedReference


def chain(count: int, first: str = "${item}", text: str = "${a%d.output.text}") -> Step:
    """Each action uses the one before it; they are written the last first."""
    actions = [
        Action(
            action_id=f"a{n}",
            tool="read",
            parameters={"text": text.replace("%d", str(n - 1)) if n else first},
        )
        for n in range(count)
    ]
    return Step(step_id="s", actions=tuple(reversed(actions)), for_each="${n.output}")


def test_a_long_chain_is_read_in_time_that_grows_with_it() -> None:
    with cpu(2.0):
        step = chain(2_000)
        assert not [*inside_violations(step)]
        assert len(uses_item(step)) == 2_000
        assert [one.action_id for one in in_order(step)] == [f"a{n}" for n in range(2_000)]
        assert not uses_item(chain(2_000, first="x"))
        round_ = step.model_copy(
            update={"actions": (*step.actions[:-1], chain(1, "${a1999.output}").actions[0])}
        )
        (told,) = inside_violations(round_)
        assert told.count("→") == 2_000


def test_readings_that_many_others_use_are_looked_up_once_each() -> None:
    made = CallState("k", "m", ONLY, "read", 1, "reads", {"text": ""}, "succeeded", Output({"text": ""}))
    known = Readings([StepState(Step(step_id="m", tool="read"), calls={ONLY: made})])
    step = chain(40, first="", text="${a%d.output.text}${a%d.output.text}${a%d.output.text}")
    wanted = StepState(step.model_copy(update={"for_each": None}))

    def nothing(ref: Reference) -> tuple[Any, str]:
        raise AssertionError(ref)

    with cpu(2.0):
        assert known.value(wanted, "a39", nothing) == {"text": ""}
        assert len(known.value(wanted, None, nothing)) == 40


def test_what_one_of_a_long_row_has_read_is_looked_up_however_many_it_goes_by() -> None:
    made = CallState("k", "m", ONLY, "read", 1, "reads", {"text": ""}, "succeeded", Output({"text": ""}))
    known = Readings([StepState(Step(step_id="m", tool="read"), calls={ONLY: made})])
    step = chain(1_000, first="")
    alone = Action(action_id="unread", tool="read", parameters={"text": "nobody has"})
    wanted = StepState(step.model_copy(update={"for_each": None, "actions": (alone, *step.actions)}))

    def nothing(ref: Reference) -> tuple[Any, str]:
        raise AssertionError(ref)

    assert known.value(wanted, "a999", nothing) == {"text": ""}, "and what it does not use is not asked for"
    assert known.value(wanted, "a0", nothing) == {"text": ""}
    with pytest.raises(UnresolvedReference):
        known.value(wanted, "unread", nothing)
