"""Files that stand in outputs: stored as they come, named where they stand, given to tools as files or as values."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest
from cli_process import replan as command

from replan import File, Replan, ToolContext, tool
from replan.core.events import CallCompleted, CallStarted
from replan.core.references.kept import MOST_VALUE
from replan.ports import ToolCall
from replan.testing import ScriptedModel
from replan.tools import FunctionSource

pytestmark = pytest.mark.anyio

BYTES = bytes(range(256)) * 8
MANY = MOST_VALUE // 2**20 + 1


def step(step_id: str, name: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "parameters": parameters, "dependencies": list(needs)}


def plan(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": list(steps)}


class Got(TypedDict):
    status: int
    body: NotRequired[str | File]


@dataclasses.dataclass
class Album:
    title: str
    pictures: list[File]


def blocks(mib: int) -> Iterator[bytes]:
    for n in range(mib):
        yield bytes([128 + n % 100]) * (1 << 20)


@tool(effect="reads")
def fetch(mib: int = 0) -> Got:
    return {"status": 200, "body": File(blocks(mib) if mib else BYTES, "image/png")}


@tool(effect="reads")
async def fetch_text(text: str) -> Got:
    async def pieces() -> AsyncIterator[bytes]:
        yield text.encode()

    return {"status": 200, "body": File(pieces(), "text/plain")}


@tool(effect="reads")
def album() -> Album:
    return Album("holidays", [File(b"\xff one"), File(b"\xff two")])


@tool(effect="reads")
def untyped():
    return {"title": "x", "file": File(BYTES)}


@tool(effect="reads")
async def kept_at_once(ctx: ToolContext) -> Got:
    file = await ctx.keep(File(BYTES, "image/png"))
    return {"status": 200, "body": file}


@tool(effect="reads")
def breaks_off() -> Got:
    def pieces() -> Iterator[bytes]:
        yield from blocks(3)
        raise ConnectionError("the other side has hung up")

    return {"status": 200, "body": File(pieces())}


@tool(effect="reads")
def size_of(file: File) -> dict[str, Any]:
    return {"told": file.size, "read": sum(map(len, file)), "type": file.media_type}


@tool(effect="reads")
def sizes_of(files: list[File], first: File | None = None) -> list[int]:
    return [sum(map(len, one)) for one in ([first] if first else []) + files]


@tool(effect="reads")
def length(text: str) -> int:
    return len(text)


@tool(effect="reads")
def status_of(got: dict[str, Any]) -> list[Any]:
    return [got["status"], got["body"][:21]]


TOOLS = [
    fetch, fetch_text, album, untyped, kept_at_once, breaks_off, size_of, sizes_of, length, status_of,
]  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return tmp_path / "log.db" if request.param == "sqlite" else request.getfixturevalue("postgres_schema")


def opened(db: Any, **more: Any) -> Replan:
    return Replan(tools=TOOLS, db=db, evaluation="steps", **more)


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def done(replan: Replan, task_id: str, step_id: str) -> CallCompleted:
    events = [record.event for record in await replan.history(task_id)]
    return next(e for e in events if isinstance(e, CallCompleted) and e.step_id == step_id)


async def test_a_file_in_an_output_is_named_there_and_goes_to_tools_that_take_files(database: Any) -> None:
    async with opened(database) as replan:
        the_plan = plan(step("a", "fetch", mib=MANY), step("b", "size_of", "a", file="${a.output.body}"))
        result = await replan.run("go", plan=the_plan, task_id="t")
        assert result.final_output == {"told": MANY << 20, "read": MANY << 20, "type": "image/png"}
        event = await done(replan, "t", "a")
        (file,) = event.files
        assert event.output == {"status": 200, "body": f"artifact:{file.artifact_id}"}
        assert (file.size, file.media_type) == (MANY << 20, "image/png")
        assert await replan.output("t", "a") == event.output
        assert sum([len(piece) async for piece in replan.output_pieces("t", "a", path="body")]) == MANY << 20
        into_a_value = plan(step("a", "fetch", mib=MANY), step("b", "length", "a", text="${a.output.body}"))
        failed = await replan.run("go", plan=into_a_value)
        assert failed.failure is not None
        assert "goes whole to a parameter that takes files" in failed.failure.reason


@pytest.mark.parametrize("name", ["fetch", "kept_at_once"])
async def test_where_a_value_is_wanted_a_file_is_its_value(name: str, database: Any) -> None:
    async with opened(database) as replan:
        for taker, given, wanted in (
            ("length", {"text": "${a.output.body}"}, len("data:image/png;base64,") + 4 * -(-len(BYTES) // 3)),
            ("size_of", {"file": "${a.output.body}"}, {"told": 2048, "read": 2048, "type": "image/png"}),
            ("status_of", {"got": "${a.output}"}, [200, "data:image/png;base64"]),
        ):
            result = await replan.run("go", plan=plan(step("a", name), step("b", taker, "a", **given)))
            assert result.final_output == wanted
            started = [
                record.event
                for record in await replan.history(result.task_id)
                if isinstance(record.event, CallStarted) and record.event.step_id == "b"
            ]
            assert "artifact:bin_" in json.dumps(started[0].parameters), "the log has the name alone"


async def test_a_file_of_text_is_the_text_and_no_part_of_another_one(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db") as replan:
        for text, wanted in (("${a.output.body}", 4), ("see: ${a.output.body}", None)):
            made = plan(step("a", "fetch_text", text="süß!"), step("b", "length", "a", text=text))
            result = await replan.run("go", plan=made)
            assert wanted is None or result.final_output == wanted
            assert wanted or "it is a file, which goes whole to a parameter" in str(result.failure)


async def test_several_files_stand_wherever_the_annotation_has_them(database: Any) -> None:
    async with opened(database) as replan:
        for made, wanted in (
            (step("b", "sizes_of", "a", files="${a.output.pictures}"), [5, 5]),
            (step("b", "sizes_of", "a", files=[], first="${a.output.pictures[1]}"), [5]),
        ):
            result = await replan.run("go", plan=plan(step("a", "album"), made))
            assert result.final_output == wanted
        result = await replan.run("go", plan=plan(step("a", "untyped")), task_id="t")
        assert await whole(replan.output_pieces("t", "a", path="file")) == BYTES


async def test_it_stays_a_file_when_the_task_goes_on_in_another_process_and_in_another_store(
    tmp_path: Path, postgres_schema: str
) -> None:
    asked = asyncio.Event()

    @tool(effect="reads")
    async def waits() -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    first = step("a", "fetch", mib=2)
    made = plan(first, step("w", "waits", "a"), step("b", "size_of", "w", file="${a.output.body}"))
    made["steps"][2]["dependencies"] = ["a", "w"]
    async with Replan(tools=[*TOOLS, waits], db=tmp_path / "log.db", evaluation="steps") as replan:
        await replan.submit("go", plan=made, task_id="t")
        await asked.wait()

    @tool(effect="reads", name="waits")
    def no_more() -> str:
        return "on"

    async with Replan(tools=[*TOOLS, no_more], db=tmp_path / "log.db", evaluation="steps") as replan:
        result = await replan.resume("t")
        assert result.final_output == {"told": 2 << 20, "read": 2 << 20, "type": "image/png"}
        async with replan.export_tasks(["t"]) as given:
            data = await whole(given)
    async with opened(postgres_schema) as replan:

        async def pieces() -> AsyncIterator[bytes]:
            yield data

        await replan.import_tasks(pieces())
        assert await whole(replan.output_pieces("t", "a", path="body")) == b"".join(blocks(2))


async def test_a_file_that_breaks_off_is_a_failed_call_and_leaves_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db") as replan:
        result = await replan.run("go", plan=plan(step("a", "breaks_off")))
        assert result.failure is not None
        assert "has hung up" in result.failure.reason
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as db:
        assert db.execute("SELECT count(*) FROM artifact_piece").fetchone() == (0,)


async def test_a_secret_is_cut_out_of_a_file_and_whoever_needs_it_fails(tmp_path: Path) -> None:
    @tool(effect="reads", secrets=["token"])
    def quotes(token: str) -> Got:
        return {"status": 200, "body": File(f"it is {token}".encode())}

    secret = "tok-91827364-geheim"
    async with Replan(tools=[*TOOLS, quotes], db=tmp_path / "log.db", evaluation="steps") as replan:
        made = plan(
            step("a", "quotes", token="${metadata.token}"), step("b", "length", "a", text="${a.output.body}")
        )
        result = await replan.run("go", plan=made, metadata={"token": secret}, task_id="t")
        assert "held a secret" in str(result.failure)
        assert await whole(replan.output_pieces("t", "a", path="body")) == b"it is ***"
    assert secret.encode() not in (tmp_path / "log.db").read_bytes()


async def test_a_fork_has_the_files_of_its_parent(database: Any) -> None:
    async with opened(database) as replan:
        made = plan(step("a", "fetch", mib=2), step("b", "length", "a", text="no"))
        await replan.run("go", plan=made, task_id="t")
        records = await replan.history("t")
        at = next(record.seq for record in records if isinstance(record.event, CallCompleted))
        fork = await replan.fork("t", at=at)
        assert (await replan.wait(fork)).status == "succeeded"
        assert await whole(replan.output_pieces(fork, "a", path="body")) == b"".join(blocks(2))


async def test_a_fork_takes_over_the_file_of_a_call_that_its_parent_has_made_since(database: Any) -> None:
    """The content is in the store once; the call is made once."""
    made: list[str] = []

    @tool(effect="once")
    def paint(title: str) -> Got:
        made.append(title)
        return {"status": 200, "body": File(blocks(2), "image/png")}

    @tool(effect="once")
    def stream(title: str) -> File:
        made.append(title)
        return File(blocks(3), "image/png")

    async with Replan(tools=[*TOOLS, paint, stream], db=database, evaluation="steps") as replan:
        first = step("a", "length", text="x")
        rest = [step("b", "paint", "a", title="b"), step("c", "stream", "b", title="c")]
        takers = [
            step("d", "size_of", "b", file="${b.output.body}"),
            step("e", "size_of", "c", file="${c.output}"),
        ]
        await replan.run("go", plan=plan(first, *rest, *takers), task_id="t")
        at = next(r.seq for r in await replan.history("t") if isinstance(r.event, CallCompleted))
        fork = await replan.fork("t", at=at)
        result = await replan.wait(fork)
        assert result.is_success, result.failure
        assert made == ["b", "c"]
        assert (await done(replan, fork, "b")).of_task == "t"
        assert await whole(replan.output_pieces(fork, "b", path="body")) == b"".join(blocks(2))
        assert sum([len(one) async for one in replan.output_pieces(fork, "c")]) == 3 << 20
        outputs = {one.step_id: one.output for one in result.steps}
        assert [outputs["d"]["read"], outputs["e"]["read"]] == [2 << 20, 3 << 20]


async def test_what_a_condition_was_waited_for_with_may_hold_a_file(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db") as replan:
        waits = step(
            "a", "wait_for_condition", tool="fetch", parameters={}, condition="output.status == `200`"
        )
        result = await replan.run("go", plan=plan(waits, step("b", "size_of", "a", file="${a.output.body}")))
        assert result.final_output == {"told": 2048, "read": 2048, "type": "image/png"}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("body.rows", "'rows' needs an object, and there is a file, which goes whole to a parameter"),
        ("body[0]", "[0] needs a list, and there is a file"),
        ("length(a.output.body)", "length() needs a value, and there is a file"),
    ],
)
async def test_no_path_leads_into_a_file(path: str, said: str, tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db") as replan:
        written = path if "(" in path else f"a.output.{path}"
        made = plan(step("a", "fetch"), step("b", "length", "a", text=f"${{{written}}}"))
        assert said in str((await replan.run("go", plan=made)).failure)


@pytest.mark.parametrize("text", ["artifact: a thing", "artifact:", "artifact:bin_1", "artifact:art_ä"])
async def test_a_text_that_only_looks_like_the_name_of_a_file_is_a_text(text: str, tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db") as replan:
        result = await replan.run("go", plan=plan(step("a", "size_of", file=text)))
        assert result.final_output["read"] == len(text.encode())


async def test_a_model_that_judges_is_told_what_a_file_is(tmp_path: Path) -> None:
    seen: list[str] = []

    def judge(request: Any) -> Any:
        seen.append(request.turns[-1].text)
        return {
            "is_success": True,
            "overall_score": 100,
            "final_output": "done",
            "evaluation_summary": "as asked",
        }

    model = ScriptedModel({"evaluation": judge})
    async with Replan(model, tools=TOOLS, db=tmp_path / "log.db") as replan:
        text = "süß\n" * 1_000
        made = plan(step("a", "fetch", mib=2), step("b", "fetch_text", text=text))
        result = await replan.run("go", plan=made, task_id="t")
        assert result.status in ("succeeded", "failed")
        (file,) = (await done(replan, "t", "b")).files
        assert (file.head, file.tail, file.size) == (text[:200], "", 6_000)
    assert "is a file (image/png, 2,097,152 bytes)" in seen[0]
    assert 'is a file (text/plain, 6,000 bytes, which begins "süß' in seen[0]
    assert "\x80" not in seen[0]


async def test_without_a_store_files_are_values(tmp_path: Path) -> None:
    source = FunctionSource(TOOLS)
    assert (await source.call(ToolCall("fetch_text", {"text": "ü"}, "k"))) == {"status": 200, "body": "ü"}
    found = await source.call(ToolCall("album", {}, "k"))
    assert found["title"] == "holidays"
    assert all(one.startswith("data:application/octet-stream;base64,") for one in found["pictures"])


def test_the_command_writes_a_file_that_stands_in_an_output(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from replan import File, tool\n\n@tool(effect='reads')\ndef big():\n"
        "    return {'name': 'x', 'file': File(iter([b'\\xff' * 2_000_000] * 2))}\n",
        encoding="utf-8",
    )
    (tmp_path / "plan.json").write_text(json.dumps(plan(step("a", "big"))), encoding="utf-8")
    run = ("run", "go", "--tools", "tools.py", "--plan", "plan.json", "--evaluation", "steps")
    assert command(*run, "--task-id", "t", cwd=tmp_path).returncode == 0
    saved = command("tasks", "output", "t", "a", "--path", "file", "-o", "big.bin", cwd=tmp_path)
    assert (saved.returncode, saved.stderr) == (0, "big.bin: 4,000,000 bytes\n")
    assert (tmp_path / "big.bin").read_bytes() == b"\xff" * 4_000_000
