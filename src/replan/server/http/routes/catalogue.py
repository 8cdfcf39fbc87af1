"""What waits for people, and what tasks may use."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from starlette.responses import Response

from replan.run.access.views import Page, ToolStatsView, ToolView, WaitingTask
from replan.server.http.calls import Cases, Signed, calls_about, listed, shown
from replan.server.http.openapi import problems
from replan.server.http.routes import parameters as p

router = calls_about("catalogue")


@router.get("/waiting", response_model=Page[WaitingTask], responses=problems())
async def waiting(caller: Signed, cases: Cases, cursor: p.Cursor = None, limit: p.Limit = 100) -> Response:
    """What waits for a person, over all tasks: approvals with the hash of the call that is shown, and questions."""
    return shown(await cases.waiting(caller, cursor=cursor, limit=limit))


@router.get("/tools", response_model=list[ToolView], responses=problems())
async def tools(caller: Signed, cases: Cases) -> Response:
    """Every tool that tasks may use."""
    return listed(await cases.tools(caller))


@router.get("/tools/{tool_id:path}/stats", response_model=ToolStatsView, responses=problems("no-such-part"))
async def tool_stats(caller: Signed, cases: Cases, tool_id: Annotated[str, Path(max_length=500)]) -> Response:
    """How a tool has done so far."""
    return shown(await cases.tool_stats(caller, tool_id))


@router.get("/workflows", response_model=list[dict[str, Any]], responses=problems("not-built"))
async def workflows(caller: Signed, cases: Cases) -> Response:
    """Plans that are kept under a name."""
    return listed(await cases.workflows(caller))


@router.get("/scenes", response_model=list[dict[str, Any]], responses=problems("not-built"))
async def scenes(caller: Signed, cases: Cases) -> Response:
    """Kinds of tasks that are treated alike."""
    return listed(await cases.scenes(caller))
