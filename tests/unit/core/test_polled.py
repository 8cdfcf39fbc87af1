"""`until` on a step is read as a wait for a condition."""

from __future__ import annotations

from typing import Any

import pytest

from replan.core.plan.read import PlanMisread, read_plan
from replan.errors import PlanInvalid

STEP: dict[str, Any] = {
    "step_id": "ready",
    "tool": "export_status",
    "parameters": {"job": "${start.output.job}"},
}


def read(**more: Any) -> Any:
    return read_plan({"steps": [{**STEP, **more}]}, plan_id="p").steps[0]


@pytest.mark.parametrize("name", ["until", "poll_until", "wait_until"])
def test_it_is_a_wait(name: str) -> None:
    found = read(**{name: " output.status == 'done' "}, every_secs="30", limit_secs=7200, name="x")
    assert found.tool == "wait_for_condition"
    assert found.parameters == {
        "tool": "export_status",
        "parameters": {"job": "${start.output.job}"},
        "condition": "output.status == 'done'",
        "every_secs": 30,
        "limit_secs": 7200,
    }


@pytest.mark.parametrize("more", [{}, {"until": None}, {"until": "", "every_secs": None, "limit_secs": ""}])
def test_without_a_condition_it_is_none(more: dict[str, Any]) -> None:
    assert read(**more).tool == "export_status"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"every_secs": 5}, "`every_secs` goes with `until`"),
        ({"until": True}, "`until` has to be a condition over the output"),
        ({"until": "output", "every_secs": "often"}, "`every_secs` has to be a number of seconds"),
        ({"until": "output", "limit_secs": True}, "`limit_secs` has to be a number of seconds"),
        (
            {"until": "output", "actions": [{"action_id": "a", "tool": "t"}]},
            "`until` is of a step with one tool",
        ),
        ({"until": "output", "tool": "wait_for_condition"}, "leave `until` out"),
        ({"until": "output", "poll_until": "other"}, "until"),
    ],
)
def test_what_cannot_be_meant_is_told(more: dict[str, Any], told: str) -> None:
    with pytest.raises((PlanMisread, PlanInvalid)) as error:
        read(**more)
    assert told in "\n".join(error.value.violations)
