"""What a tool gave cannot be kept, though its function has run to its end: its effect is had or in doubt, and never had twice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from replan import File, Replan, ToolContext, tool
from replan.core.events import CallFailed, OutcomeUnknown
from replan.errors import RetryLater, ToolCallError

pytestmark = pytest.mark.anyio

FULL = """
import asyncio, resource, signal, sys
from pathlib import Path
from replan import File, Replan, ToolContext, tool
from replan.errors import StoreFull

where, kind = Path(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

def much():
    for n in range(8):
        yield bytes([n]) * (1 << 20)

def order():
    with (where / "journal").open("a") as journal:
        journal.write(kind + "\\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, resource.RLIM_INFINITY))

@tool(effect="once")
def file() -> File:
    order()
    return File(much())

@tool(effect="once")
def within():
    order()
    return {"id": 7, "receipt": File(much())}

@tool(effect="once")
async def swallowed(ctx: ToolContext):
    order()
    try:
        await ctx.keep(File(much()))
    except Exception:
        return "none the worse"

@tool(effect="once")
def text():
    order()
    return "x" * (8 << 20)

async def main():
    tools = [file, within, swallowed, text]
    async with Replan(tools=tools, db=where / "log.db", evaluation="steps", interactive=True) as replan:
        try:
            plan = {"steps": [{"step_id": "a", "tool": kind, "parameters": {}}]}
            await replan.run("go", plan=plan, task_id="t")
        except StoreFull:
            print("full")

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of a file's size there")
@pytest.mark.parametrize("kind", ["file", "within", "swallowed", "text"])
async def test_a_full_disk_ends_the_drive_and_the_call_is_in_doubt(tmp_path: Path, kind: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FULL, str(tmp_path), kind, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.decode().split() == ["full"]

    @tool(name=kind, effect="once")
    def again():
        with (tmp_path / "journal").open("a") as journal:
            journal.write("twice\n")

    async with Replan(tools=[again], db=tmp_path / "log.db", evaluation="steps", interactive=True) as replan:
        result = await replan.resume("t")
        assert result.status == "waiting", result.reason  # for somebody who knows whether it took effect
        assert not [
            one
            for one in await replan.history("t")
            if isinstance(one.event, CallFailed) and one.event.error.happened == "no"
        ]
    assert (tmp_path / "journal").read_text().split() == [kind]


def breaks(how: str) -> Iterator[bytes]:
    yield b"x" * 1000
    match how:
        case "value":
            raise ValueError("bad page")
        case "refused":
            raise ConnectionRefusedError("nobody there")
        case "later":
            raise RetryLater("busy", 0.01)
        case "no":
            raise ToolCallError("it is closed", happened="no")
        case "text":
            yield "text"  # type: ignore[misc]
        case "memory":
            raise MemoryError


ORDERED: list[str] = []


@tool(effect="once")
def gives(how: str) -> File:
    ORDERED.append(how)
    return File("/no/such/file") if how == "missing" else File(breaks(how))


@tool(effect="once")
def holds(how: str):
    ORDERED.append(how)
    return {"receipt": File("/no/such/file") if how == "missing" else File(breaks(how))}


@tool(effect="once")
async def keeps(how: str, ctx: ToolContext):
    ORDERED.append(how)

    async def pieces() -> AsyncIterator[bytes]:
        for piece in breaks(how):
            yield piece

    return await ctx.keep(File("/no/such/file") if how == "missing" else File(pieces()))


@pytest.mark.parametrize("how", ["value", "missing", "refused", "later", "no", "text", "memory"])
@pytest.mark.parametrize("name", ["gives", "holds", "keeps"])
async def test_a_file_that_breaks_off_leaves_its_effect_in_doubt(tmp_path: Path, name: str, how: str) -> None:
    ORDERED.clear()
    async with Replan(
        tools=[gives, holds, keeps], db=tmp_path / "log.db", evaluation="steps", interactive=True
    ) as replan:
        plan = {"steps": [{"step_id": "a", "tool": name, "parameters": {"how": how}}]}
        result = await replan.run("go", plan=plan, task_id="t")
        assert result.status == "waiting", result.reason
        events = [one.event for one in await replan.history("t")]
        assert [one.error.happened for one in events if isinstance(one, CallFailed)] == ["unknown"]
        assert any(isinstance(one, OutcomeUnknown) for one in events)
    assert [how] == ORDERED


class Odd:
    """Nobody can say what it is made of."""

    def __iter__(self) -> Any:
        raise MemoryError("no more")


@tool
def odd():
    ORDERED.append("odd")
    return {"fields": {"deep": Odd()}}


async def test_a_value_that_cannot_be_written_leaves_it_in_doubt_too(tmp_path: Path) -> None:
    async with Replan(tools=[odd], db=tmp_path / "log.db", evaluation="steps", interactive=True) as replan:
        plan = {"steps": [{"step_id": "a", "tool": "odd", "parameters": {}}]}
        result = await replan.run("go", plan=plan, task_id="t")
        failed = [one.event for one in await replan.history("t") if isinstance(one.event, CallFailed)]
        assert [one.error.happened for one in failed] == ["unknown"], result.reason


@tool(effect="reads")
def shaky() -> File:
    ORDERED.append("shaky")

    def pieces() -> Iterator[bytes]:
        yield b"x"
        if len(ORDERED) == 1:
            raise ConnectionResetError("cut")

    return File(pieces())


async def test_what_only_reads_is_read_again_after_a_file_that_was_cut_off(tmp_path: Path) -> None:
    ORDERED.clear()
    async with Replan(tools=[shaky], db=tmp_path / "log.db", evaluation="steps") as replan:
        result = await replan.run("go", plan={"steps": [{"step_id": "a", "tool": "shaky", "parameters": {}}]})
        assert result.status == "succeeded", result.reason
    assert len(ORDERED) == 2
