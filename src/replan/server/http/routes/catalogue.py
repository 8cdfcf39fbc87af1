"""What waits for people, and what tasks may use."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from replan.run.access.views import Page, SceneView, ToolStatsView, ToolView, WaitingTask, WorkflowView
from replan.server.http.calls import Call, calls_about, listed, shown
from replan.server.http.openapi import problems
from replan.server.http.routes import parameters as p

router = calls_about("catalogue")


@router.get("/waiting", response_model=Page[WaitingTask], responses=problems())
async def waiting(call: Call, cursor: p.Cursor = None, limit: p.Limit = 100) -> Response:
    """What waits for a person, over all tasks: approvals with the hash of the call that is shown, and questions."""
    return shown(await call.cases.waiting(call.caller, cursor=cursor, limit=limit))


@router.get("/tools", response_model=list[ToolView], responses=problems())
async def tools(
    call: Call,
    stats: Annotated[bool, Query(description="With how each has done so far, as `…/stats` says it.")] = False,
) -> Response:
    """Every tool that tasks may use."""
    return listed(await call.cases.tools(call.caller, stats=stats))


@router.get("/tools/{tool_id:path}/stats", response_model=ToolStatsView, responses=problems("no-such-part"))
async def tool_stats(call: Call, tool_id: Annotated[str, Path(max_length=500)]) -> Response:
    """How a tool has done so far."""
    return shown(await call.cases.tool_stats(call.caller, tool_id))


@router.get("/workflows", response_model=list[WorkflowView], responses=problems())
async def workflows(call: Call) -> Response:
    """Plans that are written beforehand; one is run by `options.workflow` and `options.slots` of a new task."""
    return listed(await call.cases.workflows(call.caller))


@router.get("/scenes", response_model=list[SceneView], responses=problems())
async def scenes(call: Call) -> Response:
    """Kinds of tasks for which there is guidance."""
    return listed(await call.cases.scenes(call.caller))
