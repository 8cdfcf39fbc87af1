"""What there is beside tasks: tools, how they have done, and the kinds of tasks."""

from __future__ import annotations

from replan.core.kinds.scene import ROLES, Scene
from replan.core.kinds.workflow import Workflow
from replan.errors import NoSuchPart
from replan.ports import Tools
from replan.run.access.views import SceneView, ToolStatsView, ToolView, WorkflowView
from replan.run.service.tasks import Service


def tools(known: Tools) -> list[ToolView]:
    return [
        ToolView(
            id=tool.id,
            description=tool.description,
            effect=tool.effect,
            source=tool.source,
            parameters=tool.parameters,
            output_schema=tool.output_schema,
            requires_approval=tool.requires_approval,
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
    await service.parts.record.flush(service.parts.store)
    known = await service.parts.store.tool_stats()
    found = next((stats for key, stats in known.items() if key == (tool.source, tool.id)), None)
    return ToolStatsView(
        tool_id=tool.id,
        source=tool.source,
        calls=0 if found is None else found.calls,
        success_rate=None if found is None else found.success_rate,
        p50_secs=None if found is None else found.quantile(0.5),
        p95_secs=None if found is None else found.quantile(0.95),
        common_errors=() if found is None else tuple(found.common_errors()),
    )
