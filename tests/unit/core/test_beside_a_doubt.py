"""What a task that ends in doubt says of the other calls of the step."""

from __future__ import annotations

from replan.core.calls.site import Slot
from replan.core.report.explain_doubts import outcome_unknown
from replan.core.state.progress import CallState, CallStatus, StepState
from replan.core.state.task import State
from replan.core.types import Fault, Step


def called(index: int, status: CallStatus, fault: Fault | None) -> CallState:
    sku = {"sku": f"Q-{index}"}
    return CallState(f"k{index}", "order", Slot(item=index), "buy", 1, "once", sku, status, fault=fault)


def test_a_refused_item_beside_one_in_doubt_is_told_as_not_done() -> None:
    refused = Fault(category="parameter_error", kind="x", message="not sold", happened="no")
    unknown = Fault(category="external_error", kind="x", message="timeout", happened="unknown")
    calls = [called(0, "succeeded", None), called(1, "failed", refused), called(2, "unknown", unknown)]
    step = StepState(Step(step_id="order", tool="buy", for_each="[1, 2, 3, 4]"), "running", items=4)
    step.calls.update({call.slot: call for call in calls})
    state = State(steps={"order": step})
    state.in_doubt[calls[2].key] = calls[2]
    undone = outcome_unknown(state).undone
    assert len(undone) == 2
    assert "Q-1" in undone[0]
    assert "not sold" in undone[0]
    assert undone[1] == "step 'order' (buy): item 4 not started"
