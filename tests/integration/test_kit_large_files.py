"""Large files of a folder: taken into a task and written from it piece by piece."""

from __future__ import annotations

import asyncio
import hashlib  # noqa: F401 - for the child
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bodies_server import MIB, block, sha256_of
from replan import File, Replan, tool
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.kit import files

pytestmark = pytest.mark.anyio


def step(step_id: str, name: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "parameters": parameters, "dependencies": list(needs)}


def opened(folder: Path, *tools: Any, **more: Any) -> Replan:
    source = files(folder, write=True, **more)
    return Replan(
        tools=[source, *tools], db=folder.parent / "log.db", evaluation="steps",
        max_rounds=1, max_transient_retries=0,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def write(path: Path, mib: int) -> None:
    with path.open("wb") as file:
        for n in range(mib):
            file.write(block(n))


@pytest.mark.parametrize(
    ("more", "field"), [({}, "data_url"), ({"whole": True}, "file")], ids=["as it is", "asked for whole"]
)
async def test_a_large_file_is_read_and_written_as_it_is(
    more: dict[str, Any], field: str, folder: Path
) -> None:
    write(folder / "a.bin", 3)
    async with opened(folder, most_binary_bytes=MIB) as replan:
        plan = {
            "steps": [
                step("a", "read_file", path="a.bin", **more),
                step("b", "write_binary", "a", path="deep/b.bin", data=f"${{a.output.{field}}}"),
            ]
        }
        result = await replan.run("go", plan=plan, task_id="t")
        assert result.final_output == {"path": "deep/b.bin", "size": 3 * MIB}
        assert (folder / "deep/b.bin").read_bytes() == (folder / "a.bin").read_bytes()
        found = await replan.output("t", "a")
        assert found == {"path": "a.bin", "size": 3 * MIB, field: found[field]}
        assert found[field].startswith("artifact:bin_")


async def test_a_text_is_given_whole_where_that_is_asked_for(folder: Path) -> None:
    (folder / "a.csv").write_text("city,price\n" * 10, encoding="utf-8")
    async with opened(folder) as replan:
        plan = {
            "steps": [
                step("a", "read_file", path="a.csv", whole=True),
                step("b", "append_file", "a", path="b.csv", text="${a.output.file}"),
            ]
        }
        assert (await replan.run("go", plan=plan)).is_success
        assert (folder / "b.csv").read_text(encoding="utf-8") == "city,price\n" * 10


async def test_small_bytes_stay_a_data_url_and_what_is_too_large_is_said(folder: Path) -> None:
    write(folder / "small.bin", 1)
    write(folder / "large.bin", 3)
    async with opened(folder, most_file_bytes=2 * MIB) as replan:
        await replan.run("go", plan={"steps": [step("a", "read_file", path="small.bin")]}, task_id="t")
        assert (await replan.output("t", "a"))["data_url"].startswith("data:")
        result = await replan.run("go", plan={"steps": [step("a", "read_file", path="large.bin")]})
        assert "has 3,145,728 bytes; at most 2,097,152 are taken" in str(result.failure)


async def test_a_write_whose_source_breaks_off_leaves_what_was_there(folder: Path) -> None:
    @tool(effect="reads")
    def broken() -> dict[str, Any]:
        def pieces() -> Iterator[bytes]:
            yield block(0)
            raise OSError("the disk has gone")

        return {"file": File(pieces())}

    (folder / "b.bin").write_bytes(b"before")
    async with opened(folder, broken) as replan:
        plan = {
            "steps": [
                step("a", "broken"),
                step("b", "write_binary", "a", path="b.bin", data="${a.output.file}"),
            ]
        }
        assert not (await replan.run("go", plan=plan)).is_success
    assert (folder / "b.bin").read_bytes() == b"before"
    assert os.listdir(folder) == ["b.bin"]


async def test_outside_of_a_task_bytes_are_a_data_url_up_to_their_limit(folder: Path) -> None:
    write(folder / "a.bin", 2)
    source = files(folder, write=True)
    found = await source.call(ToolCall("read_file", {"path": "a.bin"}, "k"))
    assert found["data_url"].startswith("data:application/octet-stream;base64,")
    await source.call(ToolCall("write_binary", {"path": "b.bin", "data": found["data_url"]}, "k"))
    assert (folder / "b.bin").read_bytes() == (folder / "a.bin").read_bytes()
    with pytest.raises(ToolCallError, match="not base64"):
        await source.call(ToolCall("write_binary", {"path": "c", "data": "data:a/b;base64,§"}, "k"))


CHILD = """
import asyncio, resource, sys
sys.path.insert(0, sys.argv[1])
from test_kit_large_files import *

async def main(folder, mib):
    async with opened(folder) as replan:
        async def through(name):
            plan = {"steps": [
                step("a", "read_file", path=name),
                step("b", "write_binary", "a", path="out.bin", data="${a.output.data_url}"),
            ]}
            return await replan.run("go", plan=plan)
        write(folder / "small.bin", 3)
        await through("small.bin")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        write(folder / "large.bin", mib)
        result = await through("large.bin")
        assert result.final_output == {"path": "out.bin", "size": mib * MIB}, result
        with open(folder / "out.bin", "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        print(digest, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)

asyncio.run(main(Path(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.mark.prove
async def test_memory_stays_the_same_however_large_the_file(folder: Path) -> None:
    mib = 1024
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(Path(__file__).parent), str(folder), str(mib),
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    out, _ = await child.communicate()
    assert child.returncode == 0
    digest, more = out.decode().split()
    assert digest == sha256_of(mib)
    assert int(more) < 150, f"{more} MiB more than before"
