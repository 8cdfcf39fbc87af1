"""Outputs that come piece by piece are stored as they come, go on to other steps and out of the store, and are never in memory whole."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan as command

from replan import File, Replan, tool
from replan.core.events import CallCompleted
from replan.core.references.kept import MOST_VALUE
from replan.errors import InputError

pytestmark = pytest.mark.anyio


def step(step_id: str, name: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "parameters": parameters, "dependencies": list(needs)}


def chain(first: str, second: str, **parameters: Any) -> dict[str, Any]:
    return {"steps": [step("a", first, **parameters), step("b", second, "a", file="${a}")]}


def blocks(mib: int) -> Iterator[bytes]:
    for n in range(mib):
        yield bytes([n % 250]) * (1 << 20)


@tool(effect="reads")
def from_path(path: str) -> File:
    return File(path)


@tool(effect="reads")
def from_iterator(mib: int) -> File:
    return File(blocks(mib), "application/x-blocks")


@tool(effect="reads")
async def from_stream(text: str) -> File:
    async def pieces() -> AsyncIterator[bytes]:
        for sign in text:
            await asyncio.sleep(0)
            yield sign.encode()

    return File(pieces(), "text/plain")


@tool(effect="reads")
async def breaks_off(mib: int) -> File:
    async def pieces() -> AsyncIterator[bytes]:
        for block in blocks(mib):
            yield block
        raise ConnectionError("the other side has hung up")

    return File(pieces())


@tool(effect="reads")
def digest(file: File) -> dict[str, Any]:
    """Reads in a thread."""
    hashed, size = hashlib.sha256(), 0
    for piece in file:
        hashed.update(piece)
        size += len(piece)
    return {"sha256": hashed.hexdigest(), "size": size}


@tool(effect="reads")
async def count(file: File) -> int:
    """Reads in the event loop, twice."""
    first = sum([len(piece) async for piece in file])
    assert first == sum([len(piece) async for piece in file])
    return first


@tool(effect="reads")
def length(file: str) -> int:
    return len(file)


TOOLS = [from_path, from_iterator, from_stream, breaks_off, digest, count, length]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return tmp_path / "log.db" if request.param == "sqlite" else request.getfixturevalue("postgres_schema")


def opened(db: Any, **more: Any) -> Replan:
    return Replan(tools=TOOLS, db=db, evaluation="steps", **more)


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def test_a_large_stream_goes_on_to_tools_that_take_files_and_out_again(database: Any) -> None:
    mib = MOST_VALUE // 2**20 + 2
    wanted = hashlib.sha256()
    for block in blocks(mib):
        wanted.update(block)
    async with opened(database) as replan:
        result = await replan.run("digest it", plan=chain("from_iterator", "digest", mib=mib), task_id="t")
        assert result.final_output == {"sha256": wanted.hexdigest(), "size": mib * 2**20}
        out = hashlib.sha256()
        async for piece in replan.output_pieces("t", "a"):
            out.update(piece)
        assert out.digest() == wanted.digest()
        with pytest.raises(InputError, match=r"too large for a value.*-o FILE"):
            await replan.output("t", "a")
        into_a_value = await replan.run(
            "no file", plan=chain("from_iterator", "length", mib=mib), task_id="u"
        )
        assert into_a_value.failure is not None
        assert "goes whole to a parameter that takes files" in into_a_value.failure.reason


@pytest.mark.parametrize("text", ["", "x", "日本 🦀\n" * 2_000], ids=["nothing", "one", "many"])
async def test_a_small_stream_is_the_same_value_as_its_bytes(text: str, database: Any) -> None:
    async with opened(database) as replan:
        for taker, given in (("count", len(text.encode())), ("length", len(text)), ("digest", None)):
            result = await replan.run("go", plan=chain("from_stream", taker, text=text))
            assert result.final_output == given or result.final_output["size"] == len(text.encode())
        await replan.run("go", plan={"steps": [step("a", "from_stream", text=text)]}, task_id="t")
        assert await replan.output("t", "a") == text
        assert (await replan.result("t")).final_output == text
        assert await whole(replan.output_pieces("t", "a")) == text.encode()


async def test_bytes_that_are_no_text_are_a_data_url_where_a_value_is_wanted(
    tmp_path: Path, database: Any
) -> None:
    data = bytes(range(256)) * 20
    (tmp_path / "photo.png").write_bytes(data)
    async with opened(database) as replan:
        plan = chain("from_path", "count", path=str(tmp_path / "photo.png"))
        assert (await replan.run("go", plan=plan, task_id="t")).final_output == len(data)
        assert (await replan.output("t", "a")).startswith("data:image/png;base64,")
        assert await whole(replan.output_pieces("t", "a")) == data
        done = [
            record.event for record in await replan.history("t") if isinstance(record.event, CallCompleted)
        ]
        assert done[0].output is None


async def test_a_stream_that_breaks_off_is_a_failed_call_and_leaves_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db") as replan:
        result = await replan.run("go", plan={"steps": [step("a", "breaks_off", mib=3)]})
        assert result.failure is not None
        assert "has hung up" in result.failure.reason
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as db:
        assert db.execute("SELECT count(*) FROM artifact_piece").fetchone() == (0,)


async def test_a_secret_in_a_stream_is_taken_out_wherever_it_is_cut(tmp_path: Path) -> None:
    secret = "tok-91827364-geheim"

    @tool(effect="reads", secrets=["token"])
    async def quotes(token: str, at: int) -> File:
        async def pieces() -> AsyncIterator[bytes]:
            text = f"\xff before {token} after ü".encode("latin-1")
            yield text[:at]
            yield text[at:]

        return File(pieces())

    async with Replan(tools=[quotes, length], db=tmp_path / "log.db", evaluation="steps") as replan:
        for at in (3, 14, 20, 30):
            plan = {"steps": [step("a", "quotes", token="${metadata.token}", at=at)]}
            task_id = f"t{at}"
            await replan.run("go", plan=plan, task_id=task_id, metadata={"token": secret})
            assert await whole(replan.output_pieces(task_id, "a")) == "\xff before *** after ü".encode(
                "latin-1"
            )
    assert secret.encode() not in (tmp_path / "log.db").read_bytes()


async def test_a_task_with_streams_moves_to_another_store(tmp_path: Path, postgres_schema: str) -> None:
    async with opened(tmp_path / "log.db") as replan:
        await replan.run("go", plan=chain("from_iterator", "digest", mib=3), task_id="t")
        async with replan.export_tasks(["t"]) as given:
            data = await whole(given)
    async with opened(postgres_schema) as replan:

        async def pieces() -> AsyncIterator[bytes]:
            yield data

        await replan.import_tasks(pieces())
        assert await whole(replan.output_pieces("t", "a")) == b"".join(blocks(3))


def test_the_command_writes_a_stream_as_it_came(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from replan import File, tool\n\n@tool(effect='reads')\ndef big() -> File:\n"
        "    return File(iter([b'\\xff' * 2_000_000] * 2))\n",
        encoding="utf-8",
    )
    (tmp_path / "plan.json").write_text(json.dumps({"steps": [step("a", "big")]}), encoding="utf-8")
    run = (
        "run",
        "go",
        "--tools",
        "tools.py",
        "--plan",
        "plan.json",
        "--evaluation",
        "steps",
        "--task-id",
        "t",
    )
    assert command(*run, cwd=tmp_path).returncode == 0
    saved = command("tasks", "output", "t", "a", "-o", "big.bin", cwd=tmp_path)
    assert (saved.returncode, saved.stderr) == (0, "big.bin: 4,000,000 bytes\n")
    assert (tmp_path / "big.bin").read_bytes() == b"\xff" * 4_000_000


CHILD = """
import asyncio, hashlib, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_run_streams import *

async def main(db, mib, exported):
    async with opened(db) as replan:
        await replan.run("warm up", plan=chain("from_iterator", "digest", mib=1))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await replan.run("digest", plan=chain("from_iterator", "digest", mib=mib), task_id="t")
        assert result.final_output["size"] == mib << 20, result
        size = 0
        async for piece in replan.output_pieces("t", "a"):
            size += len(piece)
        assert size == mib << 20
        async with replan.export_tasks(["t"]) as pieces:
            with open(exported, "wb") as out:
                async for piece in pieces:
                    out.write(piece)
    async def read():
        with open(exported, "rb") as given:
            while piece := given.read(1 << 20):
                yield piece
    async with opened(Path(exported).with_suffix(".db")) as replan:
        await replan.import_tasks(read())
        assert sum([len(piece) async for piece in replan.output_pieces("t", "a")]) == mib << 20
        await replan.prune(status=("succeeded",), dry_run=False)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)

asyncio.run(main(sys.argv[2], int(sys.argv[3]), sys.argv[4]))
"""


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_memory_stays_the_same_however_large_an_output_is(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    mib = int(os.environ.get("REPLAN_STREAM_MIB", "300"))
    db = str(tmp_path / "log.db") if kind == "sqlite" else request.getfixturevalue("postgres_schema")
    given = [str(Path(__file__).parent), db, str(mib), str(tmp_path / "exported.tar")]
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, *given], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 120, f"{ended.stdout} MiB more than before"
