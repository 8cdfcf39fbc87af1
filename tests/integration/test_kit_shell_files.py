"""What programs write is a file of the task where it is much, and they wait for whoever stores it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from replan import File, Replan, tool
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.kit import python, shell

pytestmark = pytest.mark.anyio

MIB = 1 << 20


def step(step_id: str, name: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "parameters": parameters, "dependencies": list(needs)}


@tool(effect="reads")
def lines_of(file: File) -> list[Any]:
    size, last = 0, b""
    for piece in file:
        size += len(piece)
        last = (last + piece)[-100:]
    return [size, last.decode().splitlines()[-1]]


def opened(db: Path, **more: Any) -> Replan:
    source = shell(reads=["seq", "head", "sh", "cat"], **more)
    return Replan(tools=[source, lines_of], db=db, evaluation="steps", max_rounds=1, max_transient_retries=0)


def pieces_left(db: Path) -> int:
    with contextlib.closing(sqlite3.connect(db)) as opened_db:
        return int(opened_db.execute("SELECT count(*) FROM artifact_piece").fetchone()[0])


def reading(*arguments: str, stdin: str = "") -> dict[str, Any]:
    return step("a", "run_reading_command", program=arguments[0], arguments=list(arguments[1:]), stdin=stdin)


async def test_much_output_is_a_file_with_its_ends_as_text(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db", max_output_bytes=1000) as replan:
        plan = {
            "steps": [reading("seq", "1000000"), step("b", "lines_of", "a", file="${a.output.stdout_file}")]
        }
        result = await replan.run("go", plan=plan, task_id="t")
        assert result.final_output == [6_888_896, "1000000"]
        found = await replan.output("t", "a")
        assert found["truncated"]
        assert found["stdout"].startswith("1\n2\n")
        assert found["stdout"].endswith("999999\n1000000\n")
        assert found["stdout_file"].startswith("artifact:bin_")


async def test_little_output_has_no_file_and_the_text_of_one_is_its_value(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db", max_output_bytes=1000) as replan:
        await replan.run("go", plan={"steps": [reading("seq", "200")]}, task_id="t")
        assert await replan.output("t", "a") == {
            "exit_code": 0,
            "stdout": "".join(f"{n}\n" for n in range(1, 201)),
            "stderr": "",
            "truncated": False,
        }
        again = step(
            "b", "run_reading_command", "a", program="cat", stdin="${a.output.stdout_file}", arguments=[]
        )
        result = await replan.run("go", plan={"steps": [reading("seq", "1000"), again]})
        assert result.final_output["stdout_file"].startswith("artifact:bin_")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("seq 1000000; echo wrong >&2; exit 3", "failed with exit code 3: wrong"),
        ("cat /dev/zero", "wrote more than 4,194,304 bytes and was stopped"),
        ("seq 300000; sleep 600", "had not ended after"),
    ],
    ids=["it fails", "it does not end", "it hangs"],
)
async def test_of_a_program_that_fails_nothing_is_kept(script: str, said: str, tmp_path: Path) -> None:
    more = {"most_file_bytes": 4 * MIB, "timeout_secs": 2.0 if "sleep" in script else 30.0}
    if "exit 3" in script:
        more["most_file_bytes"] = 100 * MIB
    async with opened(tmp_path / "log.db", max_output_bytes=1000, **more) as replan:
        result = await replan.run("go", plan={"steps": [reading("sh", "-c", script)]}, task_id="t")
        assert said in str(result.failure)
    if "exit 3" not in script:  # that one is whole, and goes with what nobody has come to use within the hour
        assert pieces_left(tmp_path / "log.db") == 0


async def test_a_program_that_is_cancelled_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db", max_output_bytes=1000) as replan:
        started = tmp_path / "started"
        os.mkfifo(started)
        script = f"seq 1000000; echo on > {started}; sleep 600"
        await replan.submit("go", plan={"steps": [reading("sh", "-c", script)]}, task_id="t")
        await asyncio.to_thread(started.read_text)
        await replan.cancel("t")
        assert (await replan.wait("t")).status == "cancelled"
    assert pieces_left(tmp_path / "log.db") == 0


async def test_what_code_prints_is_a_file_where_it_is_much(tmp_path: Path) -> None:
    source = python(max_output_bytes=1000)
    code = "for n in range(200000):\n    print(n)\nresult = n"
    async with Replan(
        tools=[source, lines_of], db=tmp_path / "log.db", evaluation="steps", max_rounds=1
    ) as replan:
        made = [
            step("a", "run_python", code=code),
            step("b", "lines_of", "a", file="${a.output.printed_file}"),
        ]
        result = await replan.run("go", plan={"steps": made}, task_id="t")
        assert result.final_output == [1_288_890, "199999"]
        assert (await replan.output("t", "a"))["result"] == 199_999


async def test_outside_of_a_task_only_the_ends_are_given(tmp_path: Path) -> None:
    source = shell(reads=["seq", "cat"], max_output_bytes=1000)
    call = {"program": "seq", "arguments": ["100000"]}
    found = await source.call(ToolCall("run_reading_command", call, "k", deadline_secs=30))
    assert found["truncated"]
    assert "stdout_file" not in found
    with pytest.raises(ToolCallError, match="wrote more than 67,108,864 bytes"):
        await source.call(
            ToolCall(
                "run_reading_command", {"program": "cat", "arguments": ["/dev/zero"]}, "k", deadline_secs=30
            )
        )


CHILD = """
import asyncio, resource, sys
sys.path.insert(0, sys.argv[1])
from test_kit_shell_files import *

async def main(db, mib):
    async with opened(Path(db), timeout_secs=600.0) as replan:
        async def through(mib):
            plan = {"steps": [reading("head", "-c", str(mib << 20), "/dev/urandom")]}
            return await replan.run("go", plan=plan, task_id=f"t{mib}")
        await through(3)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await through(mib)
        assert result.is_success, result
        size = sum([len(one) async for one in replan.output_pieces(f"t{mib}", "a", path="stdout_file")])
        print(size, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)

asyncio.run(main(sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.prove
async def test_memory_stays_the_same_however_much_a_program_writes(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path / "log.db"), "1024",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await child.communicate()
    assert child.returncode == 0
    size, more = map(int, out.decode().split())
    assert size == 1024 * MIB
    assert more < 150, f"{more} MiB more than before"
