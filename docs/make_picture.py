"""Draw docs/picture.svg: a real run without a model, drawn while it runs.

python docs/make_picture.py
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from html import escape
from pathlib import Path
from typing import Any

from replan import Replan, tool
from replan.cli.live.axis import Axis
from replan.cli.live.picture import PictureState

SECONDS = {
    "orders": 0.9,
    "targets": 0.4,
    "rate": 0.7,
    "stock": 2.4,
    "converted": 1.4,
    "compared": 5.0,
    "report": 0.5,
}


@tool(effect="reads")
async def read(what: str) -> str:
    """Read something."""
    await asyncio.sleep(SECONDS[what])
    return what


@tool(effect="reads")
async def compute(what: str, of: list[str]) -> str:
    """Compute something."""
    await asyncio.sleep(SECONDS[what])
    return what


@tool
async def write(what: str, of: list[str]) -> str:
    """Write something."""
    await asyncio.sleep(SECONDS[what])
    return what


def step(name: str, tool_name: str, *needs: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {"what": name}
    if needs:
        parameters["of"] = [f"${{{need}.output}}" for need in needs]
    return {"step_id": name, "tool": tool_name, "parameters": parameters}


PLAN = {
    "steps": [
        step("orders", "read"),
        step("targets", "read"),
        step("rate", "read"),
        step("stock", "read"),
        step("converted", "compute", "orders", "rate"),
        step("compared", "compute", "orders", "targets"),
        step("report", "write", "converted", "compared", "stock"),
    ]
}


ROW, LEFT, BARS, WIDTH = 26, 20, 380, 1000
GREEN, BLUE, GRAY, WHITE = "#98a64b", "#6aa5c4", "#8b8b8b", "#e6e6e6"
STYLES = {"succeeded": ("✓", GREEN), "running": ("▶", BLUE), "pending": ("·", GRAY)}


def drawn(view: PictureState, now: float) -> str:
    """The live picture as SVG: columns at places of their own, and bars from where a step began to where it ended."""
    steps = [view.steps[step_id] for layer in view.layers for step_id in layer]
    begin = min(step.started for step in steps if step.started is not None)
    axis = Axis.of(begin, now, WIDTH - BARS - 60)
    scale = axis.cells / axis.span
    lines: list[str] = []

    def text(x: float, y: float, words: str, color: str = WHITE, more: str = "") -> None:
        lines.append(f'<text x="{x:g}" y="{y:g}" fill="{color}" {more}>{escape(words)}</text>')

    text(LEFT, 40, f"executing {now - begin:.1f} s", BLUE, 'font-weight="bold"')
    text(LEFT + 150, 40, view.description)
    text(LEFT, 64, f"plan 1: {len(steps)} steps in {len(view.layers)} layers, {view.mode}", GRAY)
    bottom = 112 + ROW * len(steps)
    for secs in range(int(axis.span) + 1):
        x = BARS + secs * scale
        text(x + 4, 86, f"{secs} s", GRAY)
        lines.append(f'<path d="M{x:g} 76 V{bottom - 6}" stroke="{GRAY}" stroke-opacity="0.35"/>')
    last = 0
    for number, step in enumerate(steps):
        y = 112 + ROW * number
        sign, color = STYLES[step.status]
        if step.layer != last:
            text(LEFT, y, str(step.layer), GRAY)
            last = step.layer
        text(LEFT + 24, y, sign, color)
        text(LEFT + 48, y, step.step_id, color)
        text(LEFT + 170, y, step.tool)
        if step.started is None:
            text(BARS + 8, y, "waits for " + ", ".join(view.waits_for(step)), GRAY)
            continue
        until = step.ended or now
        text(BARS - 20, y, f"{until - step.started:.1f} s", WHITE, 'text-anchor="end"')
        fill = f'fill="{color}"' + ("" if step.ended else ' fill-opacity="0.55"')
        lines.append(
            f'<rect x="{BARS + (step.started - begin) * scale:.1f}" y="{y - 14}" width="{(until - step.started) * scale:.1f}" '
            f'height="18" rx="2" {fill}/>'
        )
    y = 126 + ROW * len(steps)
    for number, (status, (sign, color)) in enumerate(STYLES.items()):
        text(LEFT + 150 * number, y, f"{sign} {view.counts[status]} {status}", color)
    text(LEFT, y + ROW, f"used so far: {view.core.tool_calls} tool calls", GRAY)
    height = y + ROW + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="14">\n'
        f'<title>replan run</title>\n<rect width="{WIDTH}" height="{height}" rx="8" fill="#292929"/>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


async def main() -> None:
    view = PictureState()
    with tempfile.TemporaryDirectory() as folder:
        async with Replan(
            tools=[read, compute, write], db=Path(folder) / "replan.db", evaluation="steps"
        ) as replan:
            task_id = await replan.submit("How did March go? Write the report.", plan=PLAN)
            view.task_id = task_id

            async def look() -> None:
                async for record in replan.watch(task_id):
                    view.apply(record)

            looking = asyncio.create_task(look())
            await asyncio.sleep(2.0)
            svg = drawn(view, time.time())
            await replan.cancel(task_id)
            await looking
    Path(__file__).with_name("picture.svg").write_text(svg, "utf-8")


if __name__ == "__main__":
    asyncio.run(main())
