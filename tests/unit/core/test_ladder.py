"""What is open for a call in doubt is decided at one place, from what was read."""

from __future__ import annotations

import pytest

from replan.core.calls.site import Slot
from replan.core.recovery.ladder import MOST_READINGS, doubt_actions
from replan.core.state.step_recovery import Healing, Reading

LAST = "trigger_overall_reflection"


def after(*readings: Reading) -> Healing:
    return Healing(readings={Slot(): list(readings)})


@pytest.mark.parametrize("readings", [(), (Reading("k", "queue", {}, error="down"),), (Reading("k", "queue", {}),)])  # fmt: skip
def test_without_a_reading_that_gave_something_nothing_can_be_settled(readings: tuple[Reading, ...]) -> None:
    assert doubt_actions(after(*readings), Slot(), readers=True) == ("verify_outcome", LAST)
    assert doubt_actions(after(*readings), Slot(), readers=False) == (LAST,)


def test_what_was_read_may_settle_it_and_is_read_again_only_so_often() -> None:
    one = Reading("k", "queue", {}, output="[]")
    assert doubt_actions(after(one), Slot(), readers=True) == ("verify_outcome", "settle_outcome", LAST)
    assert doubt_actions(after(*[one] * MOST_READINGS), Slot(), readers=True) == ("settle_outcome", LAST)
    assert doubt_actions(after(one), Slot(None, 1), readers=False) == (LAST,), "it is about another call"
