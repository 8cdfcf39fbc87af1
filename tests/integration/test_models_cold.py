"""The first model, and the first MCP server, of a process: their libraries are imported beside the event loop."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

pytest.importorskip("pydantic_ai")

PROGRAM = """
import asyncio, json, sys, threading

where = {}

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("pydantic_ai", "pydantic_ai.models.openai", "openai", "mcp.client"):
            where.setdefault(name, threading.current_thread().name)

from replan import Replan
from replan.testing import ScriptedEndpoint

sys.meta_path.insert(0, Watch())
PLAN = {"steps": [], "cannot": "there is no tool"}

async def main(url, options):
    async with Replan(tools=sys.argv[2:], endpoint=url, api_key="k", db="t.db") as replan:
        result = await replan.run("say it", **options)
        print(json.dumps([result.status, where]))

with ScriptedEndpoint({"execution_plan": PLAN, "evaluation": {}}) as server:
    asyncio.run(main(server.url, json.loads(sys.argv[1])))
"""


WAITS = {"steps": [{"step_id": "a", "tool": "wait_for_time", "parameters": {"seconds": 0}}]}
"""A plan that needs neither a model nor a tool of a source."""


def ran(tmp_path: object, tools: Sequence[str] = (), **options: object) -> tuple[str, dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(options), *tools],
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    status, where = json.loads(done.stdout.splitlines()[-1])
    return status, where


def test_the_library_of_an_endpoint_is_imported_in_another_thread(tmp_path: object) -> None:
    _, where = ran(tmp_path)
    assert where.keys() >= {"pydantic_ai", "openai"}
    assert {name: thread for name, thread in where.items() if thread == "MainThread"} == {}


def test_a_task_that_asks_no_model_imports_none(tmp_path: object) -> None:
    status, where = ran(tmp_path, plan=WAITS, evaluation="steps")
    assert (status, where) == ("succeeded", {})


@pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")
def test_the_library_of_mcp_servers_is_imported_in_another_thread(tmp_path: object) -> None:
    server = f"mcp:{sys.executable} -c pass"  # it ends at once, and was connected to
    status, where = ran(tmp_path, [server], plan=WAITS, evaluation="steps")
    assert status == "succeeded"
    assert where.keys() == {"mcp.client"}
    assert where["mcp.client"] != "MainThread"
