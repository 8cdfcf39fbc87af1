"""What a task may call without a person's yes from some event on, for whoever would take it up."""

from __future__ import annotations

from run_tasks import FakeTool, bench, plan, step
from test_run_forks import at_of

from replan.core.begun import Begun
from replan.core.limits.needs import ANY_TOOL, Needs
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.run.service.for_workers import work_left
from replan.testing import virtual_time

STRICT = Needs(asks=("send", "pay"))


def after_a_failure() -> State:
    """One step has failed, so that another is left out; a third one runs."""

    async def main() -> State:
        made = await bench(
            {
                "send": FakeTool(output=lambda p: 1 / 0, effect="once"),
                "pay": FakeTool(output="paid", effect="once"),
                "read": FakeTool(output="read", delay_secs=9),
            }
        )
        wanted = plan(step("s", "send"), step("p", "pay", "s"), step("r", "read"))
        ran = await made.run(wanted)
        return fold(ran.records[: at_of(ran, "step_completed", step_id="r") - 1])

    return virtual_time(main())


def test_what_somebody_may_have_tried_again_may_be_called_too() -> None:
    needs = work_left(after_a_failure(), Begun()).needs
    assert needs.asked_by(STRICT) == ["pay", "send"]
    assert "send" not in needs.tools


def test_whatever_a_later_plan_takes_may_be_any_tool_where_nobody_knows_which_there_were() -> None:
    needs = Needs(unasked=(ANY_TOOL,))
    assert needs.asked_by(STRICT) == ["send", "pay"]
    assert needs.asked_by(Needs()) == []
    assert needs.met_by(Needs())


def test_a_task_without_a_model_has_no_later_plan() -> None:
    assert ANY_TOOL not in work_left(after_a_failure(), Begun()).needs.unasked
