"""Draw docs/picture.svg: a real run without a model, drawn while it runs.

python docs/make_picture.py
"""

from __future__ import annotations

import asyncio
import io
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from replan import Replan, tool
from replan.cli.live.draw import render
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
            console = Console(
                width=100, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
            )
            console.print(render(view, time.time(), 100))
            await replan.cancel(task_id)
            await looking
    svg = console.export_svg(title="replan run", unique_id="replan")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no fonts from elsewhere
    Path(__file__).with_name("picture.svg").write_text(svg, "utf-8")


if __name__ == "__main__":
    asyncio.run(main())
