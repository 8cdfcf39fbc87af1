"""Large bodies over HTTP: files of the task on their way in and out, whole or not at all, and never in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bodies_server import MIB, Bodies, bodies, sha256_of
from replan import File, Replan, tool
from replan.core.events import CallCompleted
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.kit import AddressRules, http

pytestmark = pytest.mark.anyio

RULES = AddressRules(allow_private=True)


def step(step_id: str, name: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "parameters": parameters, "dependencies": list(needs)}


def opened(db: Path, *tools: Any, **more: Any) -> Replan:
    source = http(RULES, methods=["GET", "POST", "PUT"], **more)
    return Replan(tools=[source, *tools], db=db, evaluation="steps", max_rounds=1, max_transient_retries=0)


def pieces_left(db: Path) -> int:
    with contextlib.closing(sqlite3.connect(db)) as opened_db:
        return int(opened_db.execute("SELECT count(*) FROM artifact_piece").fetchone()[0])


async def output_of(replan: Replan, task_id: str) -> CallCompleted:
    events = [record.event for record in await replan.history(task_id)]
    return next(event for event in events if isinstance(event, CallCompleted))


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


@pytest.fixture
async def server() -> AsyncIterator[Bodies]:
    async with bodies() as made:
        yield made


@pytest.mark.parametrize("how", ["", "&chunked=1"], ids=["its length is said", "in chunks"])
async def test_what_is_fetched_is_a_file_that_can_be_sent(how: str, tmp_path: Path, server: Bodies) -> None:
    async with opened(tmp_path / "log.db") as replan:
        get = step("a", "http_get", url=f"{server.url}/bytes?mib=3&type=image/png{how}")
        post = step("b", "http_post", "a", url=f"{server.url}/take", file="${a.output.data_url}")
        result = await replan.run("go", plan={"steps": [get, post]}, task_id="t")
        assert result.final_output["json"] == {
            "size": 3 * MIB,
            "sha256": sha256_of(3),
            "type": "image/png",
        }
        assert server.received[0].headers["content-length"] == str(3 * MIB)
        event = await output_of(replan, "t")
        assert event.output["status"] == 200
        assert event.output["data_url"] == f"artifact:{event.files[0].artifact_id}"
        assert (event.files[0].size, event.files[0].media_type) == (3 * MIB, "image/png")


@pytest.mark.parametrize(
    ("asked", "field", "is_file"),
    [
        ("mib=1&type=application/zip", "data_url", False),
        ("mib=2&type=application/zip", "data_url", True),
        ("mib=2", "data_url", True),
        ("mib=2&text=1", "text", False),
        ("mib=4&text=1", "text", True),
        ("mib=2&text=1&type=application/octet-stream", "text", False),
        ("mib=4&text=1&type=application/json", "text", True),
    ],
)
async def test_what_is_a_file_goes_by_its_type_and_size(
    asked: str, field: str, is_file: bool, tmp_path: Path, server: Bodies
) -> None:
    async with opened(tmp_path / "log.db", most_bytes=3 * MIB) as replan:
        plan = {"steps": [step("a", "http_get", url=f"{server.url}/bytes?{asked}")]}
        result = await replan.run("go", plan=plan, task_id="t")
        assert result.is_success, result.failure
        found = await replan.output("t", "a")
        assert found[field].startswith("artifact:") == is_file
        event = await output_of(replan, "t")
        assert bool(event.files) == is_file


async def test_a_file_goes_to_other_tools_as_the_value_that_they_want(tmp_path: Path, server: Bodies) -> None:
    @tool(effect="reads")
    def taken(data: bytes, text: str, file: File) -> list[int]:
        return [len(data), len(text), sum(map(len, file))]

    async with opened(tmp_path / "log.db", taken) as replan:
        get = step("a", "http_get", url=f"{server.url}/bytes?mib=2&type=image/png")
        same = "${a.output.data_url}"
        plan = {"steps": [get, step("b", "taken", "a", data=same, text=same, file=same)]}
        result = await replan.run("go", plan=plan)
        assert result.final_output == [2 * MIB, len("data:image/png;base64,") + 2796204, 2 * MIB]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("mib=4&after=3", "incomplete|closed|broke"),
        ("mib=4&chunked=1&after=2", "incomplete|closed|broke"),
        (f"mib=3&said={3 * MIB + 9}", "incomplete|closed|broke"),
        (f"mib=3&digest={sha256_of(2)}", "not what its digest says"),
        ("mib=5", "larger than 4,194,304 bytes"),
        ("mib=5&chunked=1", "larger than 4,194,304 bytes"),
    ],
)
async def test_what_does_not_come_whole_is_a_failed_call_and_nothing_of_it_is_stored(
    asked: str, said: str, tmp_path: Path, server: Bodies
) -> None:
    async with opened(tmp_path / "log.db", most_file_bytes=4 * MIB) as replan:
        plan = {
            "steps": [
                step(
                    "a",
                    "http_get",
                    url=f"{server.url}/bytes?{asked}",
                )
            ]
        }
        result = await replan.run("go", plan=plan)
        assert result.failure is not None
        assert re.search(said, result.failure.reason), result.failure.reason
    assert pieces_left(tmp_path / "log.db") == 0


async def test_a_digest_that_holds_is_no_fault(tmp_path: Path, server: Bodies) -> None:
    async with opened(tmp_path / "log.db") as replan:
        url = f"{server.url}/bytes?mib=3&digest={sha256_of(3)}"
        assert (await replan.run("go", plan={"steps": [step("a", "http_get", url=url)]})).is_success


async def test_a_download_that_is_cancelled_leaves_nothing_and_lets_go_of_the_connection(
    tmp_path: Path, server: Bodies
) -> None:
    async with opened(tmp_path / "log.db") as replan:
        plan = {"steps": [step("a", "http_get", url=f"{server.url}/bytes?mib=6&hang=1")]}
        await replan.submit("go", plan=plan, task_id="t")
        await server.halfway.wait()
        await replan.cancel("t")
        assert (await replan.wait("t")).status == "cancelled"
        await asyncio.wait_for(server.gone.wait(), 10)
    assert pieces_left(tmp_path / "log.db") == 0


async def test_outside_of_a_task_no_more_is_read_than_a_value_may_have(server: Bodies) -> None:
    source = http(RULES, most_bytes=MIB)
    try:
        with pytest.raises(ToolCallError, match="larger than 1,048,576 bytes"):
            await source.call(ToolCall("http_get", {"url": f"{server.url}/bytes?mib=2"}, "k"))
    finally:
        await source.aclose()


async def test_a_data_url_and_a_text_can_be_sent_as_files_too(tmp_path: Path, server: Bodies) -> None:
    async with opened(tmp_path / "log.db") as replan:
        for given, size, kind in (("data:image/gif;base64,AAEC", 3, "image/gif"), ("süß", 5, "text/plain")):
            plan = {"steps": [step("a", "http_put", url=f"{server.url}/take", file=given)]}
            result = await replan.run("go", plan=plan)
            assert (result.final_output["json"]["size"], result.final_output["json"]["type"]) == (size, kind)
        both = {"steps": [step("a", "http_put", url=server.url, file="x", text="y")]}
        result = await replan.run("go", plan=both)
        assert "give one of json, text and file" in str(result.failure)


CHILD = """
import asyncio, resource, sys
sys.path.insert(0, sys.argv[1])
from test_kit_http_files import *

async def main(db, url, mib):
    async with opened(Path(db), timeout_secs=600) as replan:
        async def through(mib):
            get = step("a", "http_get", url=f"{url}/bytes?mib={mib}&type=application/zip")
            post = step("b", "http_post", "a", url=f"{url}/take", file="${a.output.data_url}")
            return await replan.run("go", plan={"steps": [get, post]})
        await through(3)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await through(mib)
        assert result.final_output["json"]["size"] == mib << 20, result
        print(result.final_output["json"]["sha256"], (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)

asyncio.run(main(sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


async def through(mib: int, tmp_path: Path) -> tuple[str, int]:
    """Fetched and sent by a process of its own: what was sent, and how many MiB more it took than for little."""
    async with bodies() as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path / "log.db"), server.url, str(mib),
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )  # fmt: skip
        out, _ = await child.communicate()
        assert child.returncode == 0
        digest, more = out.decode().split()
        return digest, int(more)


@pytest.mark.parametrize("mib", [pytest.param(1024, marks=pytest.mark.prove), 24])
async def test_memory_stays_the_same_however_much_is_fetched_and_sent(mib: int, tmp_path: Path) -> None:
    digest, more = await through(mib, tmp_path)
    assert digest == sha256_of(mib)
    assert more < 150, f"{more} MiB more than before"


FULL = """
import asyncio, resource, signal, sys
sys.path.insert(0, sys.argv[1])
from test_kit_http_files import *
from replan.errors import StoreFull

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

async def main(db):
    async with bodies() as server:
        get = step("a", "http_get", url=f"{server.url}/bytes?mib=12&type=image/png")
        async with opened(db) as replan:
            await replan.run("small", plan={"steps": [step("a", "http_get", url=f"{server.url}/take")]})
            resource.setrlimit(resource.RLIMIT_FSIZE, (6_000_000, resource.RLIM_INFINITY))
            try:
                await replan.run("go", plan={"steps": [get]}, task_id="t")
            except StoreFull as error:
                print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        async with opened(db) as replan:
            print((await replan.summary("t")).status)
            result = await replan.resume("t")
            print(result.status, sum([len(one) async for one in replan.output_pieces("t", "a", path="data_url")]))

asyncio.run(main(Path(sys.argv[2])))
"""


async def test_a_disk_that_is_full_is_no_fault_of_the_call_and_the_task_goes_on_once_there_is_room(
    tmp_path: Path,
) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FULL, str(Path(__file__).parent), str(tmp_path / "log.db"),
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    out, _ = await child.communicate()
    assert child.returncode == 0
    why, before, after = out.decode().splitlines()
    assert "free some space, then resume the task" in why
    assert (before, after) == ("executing", f"succeeded {12 * MIB}")
