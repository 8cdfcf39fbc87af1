"""What a task would do, before it is one."""

from __future__ import annotations

from replan.core.state.task import State
from replan.run.access.views import Preview
from replan.run.reviews.outlook import outlook
from replan.run.session.dependencies import Parts


async def preview(planned: State, parts: Parts) -> Preview:
    """`planned`: the task with the plan that was made for it, and with what that has cost."""
    assert planned.plan is not None
    found = await outlook(planned, planned.plan, parts, planned.usage)
    return Preview(plan=planned.plan.model_dump(mode="json"), usage=planned.usage, **dict(found))
