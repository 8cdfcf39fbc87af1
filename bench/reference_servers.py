"""MCP servers written by others, in whole tasks: installed apart, listed, called, and run through a plan each.

    python -m bench.reference_servers                     all of them, installed under out/reference_servers
    python -m bench.reference_servers --only time memory  some of them
    python -m bench.reference_servers --home FOLDER       installed elsewhere

Python servers come from the package index, each into an environment of its own (one with the protocol's library of
the 1.x line), Node.js ones through npm. What is installed stays for the next run. Nothing of it is part of Replan.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replan import Replan
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.mcp import McpSource, StdioServer

REPOSITORY = Path(__file__).parent.parent
_START_SECS = 60.0


@dataclass(frozen=True)
class Reference:
    """One server. `{here}` stands for its scratch folder. `fails`: a call that it has to refuse."""

    name: str
    packages: tuple[str, ...]
    program: str
    """A script of the Python environment, or the name of a Node.js package."""
    steps: tuple[Mapping[str, Any], ...]
    fails: tuple[str, Mapping[str, Any]]
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def node(self) -> bool:
        return self.program.startswith("@")


def step(number: int, tool: str, **parameters: Any) -> dict[str, Any]:
    needs = [f"s{number - 1}"] if number > 1 else []
    return {"step_id": f"s{number}", "tool": tool, "parameters": parameters, "dependencies": needs}


NODE = "@modelcontextprotocol/server-"
SERVERS = (
    Reference(
        "time",
        ("mcp-server-time",),
        "mcp-server-time",
        (
            step(1, "get_current_time", timezone="Europe/Berlin"),
            step(2, "convert_time", source_timezone="Europe/Berlin", time="12:00", target_timezone="${s1.output.timezone}"),
        ),
        ("get_current_time", {"timezone": "Nowhere/Land"}),
    ),
    Reference(
        "git",
        ("mcp-server-git",),
        "mcp-server-git",
        (
            step(1, "git_status", repo_path="{here}/repo"),
            step(2, "git_add", repo_path="{here}/repo", files=["a.txt"]),
            step(3, "git_commit", repo_path="{here}/repo", message="Add a"),
            step(4, "git_log", repo_path="{here}/repo", max_count=1),
        ),
        ("git_show", {"repo_path": "{here}/repo", "revision": "nothing"}),
        args=("--repository", "{here}/repo"),
    ),
    Reference(
        "fetch",
        ("mcp-server-fetch",),
        "mcp-server-fetch",
        (step(1, "fetch", url="{url}/page.html", max_length=200),),
        ("fetch", {"url": "{url}/missing.html"}),
        args=("--allow-private-ips", "--ignore-robots-txt"),
    ),
    Reference(
        "sqlite, library 1.x",
        ("mcp-server-sqlite", "mcp<2"),
        "mcp-server-sqlite",
        (
            step(1, "create_table", query="CREATE TABLE t (a INTEGER)"),
            step(2, "write_query", query="INSERT INTO t VALUES (41), (42)"),
            step(3, "read_query", query="SELECT max(a) AS most FROM t"),
        ),
        ("read_query", {}),
        args=("--db-path", "{here}/t.db"),
    ),
    Reference(
        "everything",
        (),
        f"{NODE}everything",
        (
            step(1, "get-sum", a=40, b=2),
            step(2, "echo", message="${s1.output}"),
            step(3, "get-structured-content", location="New York"),
            step(4, "get-tiny-image"),
            step(5, "trigger-long-running-operation", duration=0.2, steps=2),
            step(6, "gzip-file-as-resource", name="a.gz", data="data:text/plain,hello", outputType="resource"),
        ),
        ("get-sum", {"a": 1}),
    ),
    Reference(
        "filesystem",
        (),
        f"{NODE}filesystem",
        (
            step(1, "write_file", path="{here}/b.txt", content="one"),
            step(2, "edit_file", path="{here}/b.txt", edits=[{"oldText": "one", "newText": "two"}]),
            step(3, "read_text_file", path="{here}/b.txt"),
            step(4, "write_file", path="{here}/c.txt", content="${s3.output.content}"),
            step(5, "list_directory", path="{here}"),
        ),
        ("read_text_file", {"path": "/etc/hostname"}),
        args=("{here}",),
    ),
    Reference(
        "memory",
        (),
        f"{NODE}memory",
        (
            step(1, "create_entities", entities=[{"name": "Ada", "entityType": "person", "observations": ["writes"]}]),
            step(2, "add_observations", observations=[{"entityName": "${s1.output.entities[0].name}", "contents": ["sums"]}]),
            step(3, "search_nodes", query="sums"),
        ),
        ("add_observations", {"observations": [{"entityName": "Nobody", "contents": ["x"]}]}),
        env={"MEMORY_FILE_PATH": "{here}/memory.jsonl"},
    ),
)  # fmt: skip


def command_of(reference: Reference, home: Path) -> tuple[str, tuple[str, ...]]:
    """Install the server if it is not there, and say how it is started."""
    place = home / reference.name.replace(", ", "-").replace(" ", "-")
    if reference.node:
        npm, node = shutil.which("npm"), shutil.which("node")
        if npm is None or node is None:
            raise FileNotFoundError("npm and node are not installed")
        package = place / "node_modules" / reference.program
        if not package.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            _run(
                [
                    npm,
                    "install",
                    "--silent",
                    "--no-fund",
                    "--no-audit",
                    "--prefix",
                    str(place),
                    reference.program,
                ]
            )
        about = json.loads((package / "package.json").read_text())
        (script,) = about["bin"].values()
        return node, (str(package / script),)
    program = place / "bin" / reference.program
    if not program.is_file():
        venv.create(place, with_pip=True)
        _run([str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *reference.packages])
    return str(program), ()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")


def _scratch(here: Path) -> None:
    """What the plans find: a repository with a file that is not committed, and a page."""
    repo = here / "repo"
    repo.mkdir()
    git = ["git", "-C", str(repo)]
    _run([*git, "init", "--quiet"])
    for key, value in (("user.name", "Nobody"), ("user.email", "nobody@example.com")):
        _run([*git, "config", key, value])
    _run([*git, "commit", "--quiet", "--allow-empty", "-m", "Begin"])
    (repo / "a.txt").write_text("a")
    (here / "page.html").write_text("<html><body><h1>A page</h1><p>to be read</p></body></html>")


def _filled(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, held in known.items():
            value = value.replace(f"{{{name}}}", held)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(item, known) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, known) for item in value]
    return value


async def tried(reference: Reference, home: Path, here: Path, url: str) -> dict[str, Any]:
    """One row: what was listed, whether the task succeeded, and how a wrong call was refused."""
    row: dict[str, Any] = {"server": reference.name, "tools": 0, "task": "", "refused": "", "start_secs": 0.0}
    try:
        command, args = await asyncio.to_thread(command_of, reference, home)
    except (FileNotFoundError, RuntimeError, subprocess.SubprocessError) as error:
        return {**row, "task": f"not installed: {error}"}
    known = {"here": str(here), "url": url}
    server = StdioServer(
        command, (*args, *_filled(reference.args, known)), _filled(dict(reference.env), known), cwd=here
    )
    source = McpSource(server, name="it", start_timeout_secs=_START_SECS)
    begun = time.perf_counter()
    try:
        row["tools"] = len(await source.tools())
        row["start_secs"] = round(time.perf_counter() - begun, 2)
        if problems := source.problems():
            row["problems"] = [f"{problem.tool}: {problem.message}" for problem in problems]
        async with Replan(tools=[source], db=here / f"{reference.name}.db") as replan:
            plan = {"steps": _filled(list(reference.steps), known)}
            task = await replan.submit(f"Try {reference.name}", plan=plan, evaluation="steps")
            outcome = await replan.wait(task)
            row["task"] = (
                outcome.status if outcome.status == "succeeded" else f"{outcome.status}: {outcome.failure}"
            )
            row["refused"] = await _refusal(source, reference, known)
    except ToolCallError as error:
        row["task"] = f"{error.kind}: {error}"
    finally:
        await source.aclose()
    return row


async def _refusal(source: McpSource, reference: Reference, known: Mapping[str, str]) -> str:
    tool, parameters = reference.fails
    try:
        given = await source.call(ToolCall(tool, _filled(dict(parameters), known), "wrong", deadline_secs=20))
    except ToolCallError as error:
        return error.kind
    return f"not refused: {given}"


async def _all(references: Sequence[Reference], home: Path, here: Path, url: str) -> list[dict[str, Any]]:
    return [await tried(reference, home, here, url) for reference in references]


def measure(home: Path, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """A row for each server, one after another."""
    references = [each for each in SERVERS if not only or each.name.partition(",")[0] in only]
    with tempfile.TemporaryDirectory(prefix="reference-") as folder:
        here = Path(folder).resolve()
        _scratch(here)
        pages = subprocess.Popen(
            [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(here)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert pages.stdout is not None
        try:
            port = pages.stdout.readline().split(" port ")[1].split()[0]
            return asyncio.run(_all(references, home, here, f"http://127.0.0.1:{port}"))
        finally:
            pages.kill()
            pages.wait()
            pages.stdout.close()


def main() -> list[dict[str, Any]]:
    """Print the table, and give its rows."""
    names = [reference.name.partition(",")[0] for reference in SERVERS]
    parser = argparse.ArgumentParser(description="MCP servers written by others, in whole tasks.")
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", help=f"some of {', '.join(names)}"
    )
    parser.add_argument("--home", type=Path, default=REPOSITORY / "out" / "reference_servers")
    options = parser.parse_args()
    rows = measure(options.home, options.only or ())
    print(f"{'server':22}{'tools':>6}{'start s':>9}  {'wrong call':14}task")
    for row in rows:
        print(f"{row['server']:22}{row['tools']:6}{row['start_secs']:9.2f}  {row['refused']:14}{row['task']}")
        for problem in row.get("problems", ()):
            print(f"{'':6}{problem}")
    return rows


if __name__ == "__main__":
    main()
