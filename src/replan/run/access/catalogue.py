"""What there is beside tasks: tools, and how they have done."""

from __future__ import annotations

from replan.errors import NoSuchPart
from replan.ports import Tools
from replan.run.access.views import ToolStatsView, ToolView
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
