"""A running task in a notebook: its graph changes while it runs, and where there is no notebook nothing of one is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from replan import Replan
from replan.errors import InputError

pytestmark = pytest.mark.anyio
PLAN = {
    "steps": [
        {"step_id": "first", "tool": "double", "parameters": {"n": 4}},
        {"step_id": "second", "tool": "double", "parameters": {"n": "${first.output}"}},
    ]
}


def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


KERNEL = """
class Shell:
    kernel = object()

def get_ipython():
    return Shell()
"""
DISPLAY = """
import json, sys

class Handle:
    def update(self, value):
        print(json.dumps(["update", value._repr_svg_()]))

def display(value, *, display_id):
    assert display_id is True
    print(json.dumps(["display", value._repr_html_()]))
    return Handle()
"""
CELL = """
import asyncio, json, sys
{first}
from replan import Replan

def double(n: int) -> int:
    "Twice the number."
    return 2 * n

async def main():
    async with Replan(tools=[double], db="t.db", evaluation="steps") as replan:
        task_id = await replan.submit("double it", plan=json.loads({plan!r}))
        result = await replan.show(task_id)
        print(json.dumps(["result", result.output, "IPython" in sys.modules]))

asyncio.run(main())
"""


def ran(folder: Path, first: str) -> list[list[object]]:
    """What a cell displays in a kernel of IPython, as far as that is a kernel: what Replan asks of one."""
    (folder / "IPython").mkdir(exist_ok=True)
    (folder / "IPython" / "__init__.py").write_text(KERNEL, "utf-8")
    (folder / "IPython" / "display.py").write_text(DISPLAY, "utf-8")
    (folder / "cell.py").write_text(CELL.format(first=first, plan=json.dumps(PLAN)), "utf-8")
    done = subprocess.run(
        [sys.executable, "cell.py"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_notebook_is_shown_the_graph_as_it_becomes(tmp_path: Path) -> None:
    told = ran(tmp_path, "import IPython")
    assert [one[0] for one in told][:1] == ["display"]
    assert "data:image/svg+xml;base64," in str(told[0][1])
    assert told[-1] == ["result", 16, True]
    last = [one for one in told if one[0] == "update"][-1]
    assert str(last[1]).count("succeeded") >= 3  # the task and both steps
    assert "critical path: first → second" in str(last[1])


def test_without_a_notebook_nothing_of_one_is_imported(tmp_path: Path) -> None:
    assert ran(tmp_path, "") == [["result", 16, False]]


async def test_a_result_and_a_task_have_the_same_drawing(tmp_path: Path) -> None:
    async with Replan(tools=[double], db=tmp_path / "t.db", evaluation="steps") as replan:
        result = await replan.run("double it", plan=PLAN, output_type=int)
        seen = await replan.drawing(result.task_id)
        with pytest.raises(InputError, match="has no plan 7"):
            await replan.drawing(result.task_id, 7)
    drawn = result.drawing()
    assert drawn is not None
    assert drawn.graph.critical == seen.graph.critical == ("first", "second")
    assert [(one.step_id, one.status, one.needs) for one in drawn.graph.nodes] == [
        (one.step_id, one.status, one.needs) for one in seen.graph.nodes
    ]
    assert seen.graph.nodes[0].needs == ()
