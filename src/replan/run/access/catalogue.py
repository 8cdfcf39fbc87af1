"""What there is beside tasks: tools, how they have done, and the kinds of tasks."""

from __future__ import annotations

from collections.abc import Mapping

from replan.core.kinds.scene import ROLES, Scene
from replan.core.kinds.workflow import Workflow
from replan.core.tools.stats import ToolKey, ToolStats
from replan.core.types import ToolSpec
from replan.errors import NoSuchPart
from replan.ports import Tools
from replan.run.access.views import SceneView, ToolStatsView, ToolView, WorkflowView
from replan.run.service.tasks import Service


async def tools(service: Service, *, stats: bool) -> list[ToolView]:
    """`stats`: with how each has done so far."""
    known = service.parts.tools
    found = await _all_stats(service) if stats else {}
    return [
        ToolView(
            id=tool.id,
            description=tool.description,
            effect=tool.effect,
            source=tool.source,
            parameters=tool.parameters,
            output_schema=tool.output_schema,
            requires_approval=tool.requires_approval,
            stats=_stats_view(tool, found) if stats else None,
        )
        for tool in known.specs()
    ]


def workflow(found: Workflow, tools: Tools) -> WorkflowView:
    return WorkflowView(
        id=found.workflow_id,
        description=found.description,
        slots=found.slots,
        required=found.required,
        steps=len(found.steps),
        tools=found.tools,
        lacking=tuple(name for name in found.tools if tools.resolve(name) is None),
        task_type=found.task_type,
        built_in=found.built_in,
        digest=found.digest,
    )


def scene(found: Scene) -> SceneView:
    return SceneView(
        task_type=found.task_type,
        description=found.description,
        guides=tuple(role for role in ROLES if found.guidance(role)),
        digest=found.digest,
    )


async def tool_stats(service: Service, tool_id: str) -> ToolStatsView:
    tool = service.parts.tools.resolve(tool_id)
    if tool is None:
        near = service.parts.tools.nearest(tool_id)
        raise NoSuchPart(
            f"there is no tool {tool_id!r:.200}" + (f"; did you mean {', '.join(near)}?" if near else "")
        )
    return _stats_view(tool, await _all_stats(service))


async def _all_stats(service: Service) -> dict[ToolKey, ToolStats]:
    await service.parts.record.flush(service.parts.store)
    return await service.parts.store.tool_stats()


def _stats_view(tool: ToolSpec, known: Mapping[ToolKey, ToolStats]) -> ToolStatsView:
    found = known.get(ToolKey(tool.source, tool.id))
    return ToolStatsView(
        tool_id=tool.id,
        source=tool.source,
        calls=0 if found is None else found.calls,
        success_rate=None if found is None else found.success_rate,
        p50_secs=None if found is None else found.quantile(0.5),
        p95_secs=None if found is None else found.quantile(0.95),
        common_errors=() if found is None else tuple(found.common_errors()),
    )
