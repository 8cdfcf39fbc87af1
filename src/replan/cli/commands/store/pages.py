"""One task as a page that stands alone: `replan tasks show ID --html FILE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replan.cli.terminal.task_ids import full_id
from replan.core.state.task import ENDED

if TYPE_CHECKING:
    from replan.config import Settings


async def page_of_task(task_id: str, settings: Settings, db: str | None) -> str:
    """What a user may see of it: words of prompts and of models' answers are left out."""
    from replan.cli.terminal.opening import open_stored
    from replan.page.export import page_of
    from replan.run.access.shown import Showing, shown

    async with open_stored(settings, db) as replan:
        found = await full_id(replan, task_id)
        records = await replan.history(found)
        result = await replan.result(found)
    told = result.model_dump(mode="json", include={"final_output", "failure"})
    events = [shown(record, Showing("user")) for record in records]
    return page_of(events, result=told if result.status in ENDED else None)
