"""Tasks move from one store to another with the history that they had, byte for byte; of a file that is not right nothing is taken."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from replan import Replan, tool
from replan.core.events import (
    CallCompleted,
    CancelRequested,
    ForkMade,
    StepReady,
    TaskFailed,
    TaskForked,
    TaskSubmitted,
)
from replan.core.types import Failure
from replan.errors import InputError, StoreError, TaskGivenAway, TaskHeld, TaskNotFound
from replan.store.sqlite import SqliteStore
from replan.store.transfer.incoming import taken_in
from replan.store.transfer.outgoing import exported

pytestmark = pytest.mark.anyio

SENT: list[str] = []


@tool(effect="reads")
def big(letter: str, length: int = 1_100_000) -> str:
    return letter * length


@tool(effect="once")
def send(text: str) -> str:
    SENT.append(text[:3])
    return f"sent {len(text)}"


def step(step_id: str, name: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "parameters": parameters, "dependencies": list(needs)}


PLAN = {
    "steps": [step("a", "big", letter="x"), step("b", "big", letter="ü"), step("c", "send", "a", text="${a}")]
}


def opened(db: Any, **options: Any) -> Replan:
    return Replan(tools=[big, send], db=db, evaluation="steps", **options)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], Any]:
    """A new database of that kind and name."""
    schemas: dict[str, str] = {}

    def make(kind: str, name: str) -> Any:
        if kind == "sqlite":
            return tmp_path / f"{name}.db"
        if name not in schemas:
            schemas[name] = request.getfixturevalue("new_postgres_schema")()
        return schemas[name]

    return make


async def pieces(data: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def file_of(replan: Replan, *task_ids: str, move: bool = False) -> bytes:
    async with replan.export_tasks(task_ids, move=move) as given:
        return b"".join([piece async for piece in given])


@pytest.mark.parametrize(
    "kinds",
    [
        ("sqlite", "sqlite", "sqlite"),
        ("sqlite", "postgres", "sqlite"),
        ("postgres", "sqlite", "postgres"),
    ],
    ids="-".join,
)
async def test_an_ended_task_is_the_same_wherever_it_was_moved(
    kinds: tuple[str, ...], database: Callable[[str, str], Any]
) -> None:
    files: list[bytes] = []
    seen: list[Any] = []
    for n, kind in enumerate(kinds):
        async with opened(database(kind, f"db{n}")) as replan:
            if n == 0:
                await replan.run(
                    "two things 🦀", plan=PLAN, task_id="t", metadata={"text": "日本\u0000\u2028", "n": 1.0}
                )
                await replan.run("another", plan={"steps": [step("a", "big", letter="x")]}, task_id="u")
            else:
                made = await replan.import_tasks(pieces(files[-1]))
                assert [(one.task_id, one.status, one.new) for one in made] == [
                    ("t", "succeeded", True),
                    ("u", "succeeded", True),
                ]
            files.append(await file_of(replan, "t", "u"))
            seen.append(
                (
                    await replan.history("t"),
                    await replan.output("t", "b"),
                    (await replan.result("t")).model_dump(),
                    (await replan.summary("t"))._replace(held=False),
                )
            )
            again = await replan.import_tasks(pieces(files[-1]))
            assert [one.new for one in again] == [False, False]

    assert files[1:] == files[:-1]
    assert seen[1:] == seen[:-1]
    assert seen[0][1] == "ü" * 1_100_000


@pytest.mark.parametrize("kinds", [("sqlite", "postgres"), ("postgres", "sqlite")], ids="-".join)
async def test_a_task_and_its_forks_stay_whose_they_were(
    kinds: tuple[str, ...], database: Callable[[str, str], Any]
) -> None:
    request = TaskSubmitted(description="do it", tenant="acme", context={"session_id": "s 日本"})
    async with opened(database(kinds[0], "from")) as replan:
        store: Any = replan.service.parts.store
        await store.create("t", request, 1.0)
        await store.fork("f", TaskForked(origin="t", at=1, root="t"), ForkMade(fork="f", at=1), 2.0)
        for task_id in ("t", "f"):
            await replan.cancel(task_id)
        data = await file_of(replan, "t", "f")

    async with opened(database(kinds[1], "to")) as replan:
        await replan.import_tasks(pieces(data))
        store = replan.service.parts.store
        for narrowed in ({"tenant": "acme"}, {"session": "s 日本"}, {"tenant": "acme", "session": "s 日本"}):
            found = await store.list_tasks(**narrowed)
            assert [(one.task_id, one.tenant, one.session) for one in found] == [
                ("f", "acme", "s 日本"),
                ("t", "acme", "s 日本"),
            ]
        assert await store.list_tasks(tenant="") == []


async def test_a_content_that_tasks_share_is_in_the_file_once(database: Callable[[str, str], Any]) -> None:
    async with opened(database("sqlite", "db")) as replan:
        await replan.run("two", plan=PLAN, task_id="t")
        await replan.run("one", plan=PLAN, task_id="u")
        data = await file_of(replan, "t", "u")

    names = tarfile.open(fileobj=io.BytesIO(data)).getnames()  # noqa: SIM115
    artifacts = [name for name in names if name.startswith("artifacts/")]
    assert (
        len(artifacts) == len(set(artifacts)) == 3
    )  # of each task: two outputs, and the answer that holds them
    assert names[0] == "manifest.json"
    assert names[-1] == "end.json"


@pytest.mark.parametrize("kinds", [("sqlite", "postgres"), ("postgres", "sqlite")], ids="-".join)
async def test_a_task_that_waits_is_given_away_and_goes_on_there_alone(
    kinds: tuple[str, str], database: Callable[[str, str], Any]
) -> None:
    SENT.clear()
    async with opened(database(kinds[0], "from"), approval="all", interactive=True) as replan:
        await replan.run("send it", plan=PLAN, task_id="t")
        with pytest.raises(InputError, match=r"has not ended .*--move"):
            await file_of(replan, "t")
        data = await file_of(replan, "t", move=True)
        with pytest.raises(TaskNotFound):
            await replan.summary("t")

    async with opened(database(kinds[1], "to"), approval="all", interactive=True) as replan:
        (made,) = await replan.import_tasks(pieces(data))
        assert (made.status, made.goes_on) == ("waiting", True)
        while (result := await replan.result("t")).waiting_for:
            for asked in result.waiting_for:
                await replan.approve("t", asked.id)
            await replan.resume("t")
        assert result.status == "succeeded"
    assert SENT == ["xxx"]


async def test_a_task_that_somebody_drives_is_not_exported(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    async with opened(tmp_path / "log.db", approval="all", interactive=True) as replan:
        await replan.run("send it", plan=PLAN, task_id="t")
        claim = await store.claim("t")
        with pytest.raises(TaskHeld, match="stop its driver"):
            await file_of(replan, "t", move=True)
        await store.release(claim)
    await store.aclose()


async def test_what_somebody_says_during_the_export_is_not_lost(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    async with opened(tmp_path / "log.db", approval="all", interactive=True) as replan:
        await replan.run("send it", plan=PLAN, task_id="t")

    async def said_meanwhile(*, late: bool) -> None:
        async with exported(store, ["t"], move=True) as given:
            async for piece in given:
                if late == (b"end.json" in piece):
                    await store.signal("t", CancelRequested(reason="no more"), 5.0)

    with pytest.raises(TaskGivenAway, match="--take-back"):  # the file is as good as whole
        await said_meanwhile(late=True)
    assert not (await store.summary("t")).given_away
    with pytest.raises(StoreError, match="still here"):
        await said_meanwhile(late=False)
    assert (await store.read("t"))[-1].event == CancelRequested(reason="no more")
    summary = await store.summary("t")
    assert not summary.held
    assert not summary.given_away
    await store.aclose()


async def test_a_task_with_another_history_is_not_replaced(tmp_path: Path) -> None:
    async with opened(tmp_path / "from.db") as replan:
        await replan.run("send it", plan=PLAN, task_id="t")
        await replan.run("one more", plan=PLAN, task_id="u")
        data = await file_of(replan, "u", "t")
    async with opened(tmp_path / "to.db") as replan:
        await replan.run("send it", plan=PLAN, task_id="t")
        before = await replan.history("t")
        with pytest.raises(
            InputError, match=r"'t' is here already with another history.*another task of this name. Delete"
        ):
            await replan.import_tasks(pieces(data))
        assert await replan.history("t") == before
        assert [row.task_id for row in await replan.tasks()] == ["t"]


async def forked(store: Any, fork: str, origin: str, at: int, *, root: str = "t") -> None:
    await store.fork(
        fork, TaskForked(origin=origin, at=at, root=root, hint="again"), ForkMade(fork=fork, at=at), 7.0
    )


async def ended(store: Any, task_id: str) -> None:
    claim = await store.claim(task_id)
    failed = TaskFailed(failure=Failure(kind="step", reason="it is over"))
    await store.append(claim, [StepReady(step_id="x"), failed], ts=8.0, round=1)
    await store.release(claim)


@pytest.mark.parametrize("kinds", [("sqlite", "postgres"), ("postgres", "sqlite")], ids="-".join)
async def test_a_fork_goes_with_the_history_that_it_rests_on(
    kinds: tuple[str, str], database: Callable[[str, str], Any]
) -> None:
    async with opened(database(kinds[0], "from")) as replan:
        store = replan.service.parts.store
        await replan.run("two things", plan=PLAN, task_id="t")
        last = (await store.summary("t")).last_seq
        await forked(store, "f", "t", last - 1)
        claim = await store.claim("f")
        await store.take(claim, "ab12.1")
        await store.release(claim)
        await ended(store, "f")
        await forked(store, "g", "f", last + 1)
        await forked(store, "h", "t", 3)
        await ended(store, "g")
        data = await file_of(replan, "g")
        before = [await replan.history(task_id) for task_id in ("t", "f", "g")]
        with pytest.raises(InputError, match="has not ended"):
            await file_of(replan, "h")

    async with opened(database(kinds[1], "to")) as replan:
        store = replan.service.parts.store
        made = await replan.import_tasks(pieces(data))
        assert [(one.task_id, one.status) for one in made] == [
            ("t", "succeeded"),
            ("f", "failed"),
            ("g", "failed"),
        ]
        assert [await replan.history(task_id) for task_id in ("t", "f", "g")] == before
        assert await file_of(replan, "g") == data
        assert [tuple(one) for one in await store.rests_on("g")] == [("t", last - 1), ("f", last + 1)]
        large = [record.event.artifact for record in before[2] if isinstance(record.event, CallCompleted)]
        assert [len(await store.artifact("g", one.artifact_id)) for one in large if one] == [
            one.size for one in large if one
        ]
        assert [one.new for one in await replan.import_tasks(pieces(data))] == [False] * 3
        await forked(store, "i", "g", last)
        claim = await store.claim("i")
        assert (await store.take(claim, "ab12.1")).task_id == "f"
        await store.release(claim)


async def test_a_family_that_has_made_calls_since_its_fork_is_moved_with_them(tmp_path: Path) -> None:
    """What was made of like calls is known there, too: none of it is done again."""
    mine = [step("a", "send", text="Ann")]
    async with opened(tmp_path / "from.db") as replan:
        await replan.run("send", task_id="t", plan={"steps": mine})
        fork = await replan.fork("t", plan={"steps": [*mine, step("b", "send", text="Bob")]})
        assert (await replan.wait(fork)).status == "succeeded"
        data = await file_of(replan, "t", fork)
        owned = (await replan.service.parts.store.who_has("t", [_like(data)]))[_like(data)]
    async with opened(tmp_path / "to.db") as replan:
        await replan.import_tasks(pieces(data))
        assert await replan.service.parts.store.who_has("t", [_like(data)]) == {_like(data): owned}


def _like(data: bytes) -> str:
    """What the family knows a call and all that are like it by."""
    manifest = json.loads(dict(files_in(data))["manifest.json"])
    return next(key for one in manifest["tasks"] for key, *_ in one.get("taken", ()) if key.endswith(".like"))


async def test_of_a_family_that_goes_on_no_part_is_given_away(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db", approval="all", interactive=True) as replan:
        store = replan.service.parts.store
        await replan.run("send it", plan=PLAN, task_id="t")
        await forked(store, "f", "t", 2)
        with pytest.raises(InputError, match="which would go on here: neither"):
            await file_of(replan, "f", move=True)
        with pytest.raises(InputError, match="which would go on here: neither"):
            await file_of(replan, "t", move=True)
        assert [row.held for row in await replan.tasks()] == [False, False]
        data = await file_of(replan, "f", "t", move=True)
        assert await replan.tasks() == []
    async with opened(tmp_path / "other.db", approval="all", interactive=True) as replan:
        assert [one.task_id for one in await replan.import_tasks(pieces(data))] == ["t", "f"]
        assert (await replan.history("f"))[-1].event.type == "task_forked"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_calls_that_are_named_by_another_databases_key_are_not_gone_on_with(
    kind: str, database: Callable[[str, str], Any]
) -> None:
    @tool(effect="once", secrets=["token"])
    def pay(token: str) -> str:
        return "paid"

    plan = {"steps": [step("a", "pay", token="${metadata.token}"), step("b", "send", "a", text="x")]}
    async with Replan(tools=[pay, send], db=database(kind, "from"), evaluation="steps") as replan:
        await replan.run("pay", plan=plan, task_id="t", secrets={"token": SecretStr("tok-91827364")})
        ended_one = await file_of(replan, "t")
        assert b"91827364" not in ended_one
        assert [one.new for one in await replan.import_tasks(pieces(ended_one))] == [False]
    policy: Any = {"approval": "all", "interactive": True}
    async with Replan(tools=[pay, send], db=database(kind, "from"), evaluation="steps", **policy) as replan:
        await replan.run("pay", plan=plan, task_id="u", secrets={"token": SecretStr("tok-91827364")})
        waiting = await file_of(replan, "u", move=True)
        with pytest.raises(InputError, match=r"'u' was here before.*--not-gone-on"):
            await replan.import_tasks(pieces(waiting))
        assert [one.new for one in await replan.import_tasks(pieces(waiting), not_gone_on=True)] == [True]

    async with opened(database(kind, "to")) as replan:
        assert [one.status for one in await replan.import_tasks(pieces(ended_one))] == ["succeeded"]
        assert await file_of(replan, "t") == ended_one
        with pytest.raises(InputError, match=r"came from another database.*go on with it there"):
            await forked(replan.service.parts.store, "f", "t", 2)
        with pytest.raises(InputError, match="came from another database"):
            await replan.import_tasks(pieces(waiting))
        assert [row.task_id for row in await replan.tasks()] == ["t"]


# ── files of strangers ──


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    async def make() -> bytes:
        async with opened(tmp_path_factory.mktemp("good") / "log.db", max_output_bytes=1_024) as replan:
            plan = {
                "steps": [step("a", "big", letter="x", length=20_000), step("c", "send", "a", text="${a}")]
            }
            await replan.run("send it", plan=plan, task_id="t")
            return await file_of(replan, "t")

    with ThreadPoolExecutor(1) as beside:  # a loop of its own
        return beside.submit(asyncio.run, make()).result()


def files_in(data: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return [(one.name, tar.extractfile(one).read()) for one in tar.getmembers()]  # type: ignore[union-attr]


def packed(files: list[tuple[str, bytes]], kind: bytes = tarfile.REGTYPE) -> bytes:
    """The files as an archive whose end is right, so that only what they hold is wrong."""
    out = b""
    for count, (name, data) in enumerate([*files[:-1], ("end.json", b"")]):
        if name == "end.json":
            data = json.dumps({"files": count, "sha256": hashlib.sha256(out).hexdigest()}).encode()
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.type = (
            len(data),
            0o600,
            tarfile.REGTYPE if name.endswith(".json") else kind,
        )
        out += info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)
    return out + bytes(1024)


def with_line(data: bytes, at: int, change: Callable[[dict[str, Any]], Any]) -> bytes:
    files = files_in(data)
    name, log = files[1]
    lines = log.splitlines()
    row = json.loads(lines[at])
    lines[at] = json.dumps(change(row) or row).encode()
    files[1] = (name, b"\n".join(lines) + b"\n")
    return packed(files)


def with_manifest(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    files = files_in(data)
    manifest = json.loads(files[0][1])
    change(manifest)
    return packed([(files[0][0], json.dumps(manifest).encode()), *files[1:]])


def with_file(data: bytes, at: int, name: str | None = None, body: bytes | None = None) -> bytes:
    files = files_in(data)
    files[at] = (files[at][0] if name is None else name, files[at][1] if body is None else body)
    return packed(files)


WRONG: list[Any] = [
    pytest.param(lambda data: b"", "cut off", id="nothing"),
    pytest.param(lambda data: b"no tar" * 1000, "nothing that `replan tasks export`", id="something else"),
    pytest.param(lambda data: b"PK\x03\x04" + data, "nothing that", id="a zip"),
    pytest.param(lambda data: data[:-3000], "cut off", id="cut before its end"),
    pytest.param(lambda data: packed(files_in(data)[1:]), "begins with", id="no manifest"),
    pytest.param(lambda data: packed(files_in(data), tarfile.SYMTYPE), "no plain file", id="links"),
    pytest.param(lambda data: with_file(data, 1, name="../../etc/passwd"), "does not speak of", id="a way out"),
    pytest.param(lambda data: with_file(data, 1, name="tasks/2/log-1.jsonl"), "does not speak", id="another's log"),
    pytest.param(lambda data: with_file(data, 1, name="tasks/1/log-2.jsonl"), "out of order", id="a part missing"),
    pytest.param(lambda data: with_file(data, 2, body=b"y" * 20_002), "SHA-256", id="another content"),
    pytest.param(lambda data: with_file(data, 2, body=b"y"), "1 bytes", id="a shorter content"),
    pytest.param(
        lambda data: packed([*files_in(data)[:2], files_in(data)[-1]]), "lacks artifacts", id="no content"
    ),
    pytest.param(lambda data: with_manifest(data, lambda m: m.update(version=2)), "upgrade Replan", id="newer form"),
    pytest.param(lambda data: with_manifest(data, lambda m: m.update(format="x")), "format", id="another form"),
    pytest.param(
        lambda data: with_manifest(data, lambda m: m["tasks"][0].update(task_id="../t")), "task id", id="odd id"
    ),
    pytest.param(
        lambda data: with_manifest(data, lambda m: m["tasks"].append(m["tasks"][0])), "twice", id="a task twice"
    ),
    pytest.param(
        lambda data: with_manifest(data, lambda m: m["tasks"][0].update(status="failed")), "comes to", id="status"
    ),
    pytest.param(
        lambda data: with_manifest(data, lambda m: m["tasks"][0].update(last_seq=3)), "ends at event", id="length"
    ),
    pytest.param(
        lambda data: with_manifest(data, lambda m: m["tasks"][0].update(artifacts=[])), "does not speak", id="artifact"
    ),
    pytest.param(lambda data: with_line(data, 0, lambda row: row.update(seq=2)), "gap", id="a gap"),
    pytest.param(lambda data: with_line(data, 0, lambda row: row.update(round=-1)), "round", id="a round"),
    pytest.param(lambda data: with_line(data, 0, lambda row: row.update(type="x\u0000")), "no kind", id="a kind"),
    pytest.param(lambda data: with_line(data, 0, lambda row: row.update(type="task_started")), "first event", id="first"),
    pytest.param(lambda data: with_line(data, 1, lambda row: row.update(data=[["x"]])), "cannot read", id="data"),
    pytest.param(lambda data: with_line(data, 1, lambda row: [1]), "line of a log", id="a line"),
    *(
        pytest.param(
            lambda data, tenant=tenant: with_line(data, 0, lambda row: row["data"].update(tenant=tenant)), "cannot read", id=f"tenant {tenant!a}"
        )
        for tenant in ("ACME", "a/b", "a\0", "é", "acme\n", "x" * 65)
    ),
    pytest.param(
        lambda data: with_line(data, -1, lambda row: row.update(data=[*row["data"], ["step_ready", {"step_id": "a"}]], seq=row["seq"] + 1)),
        "after the end",
        id="after the end",
    ),
    pytest.param(
        lambda data: with_file(data, 1, body=b'{"seq": 1, "ts": 1.0, "round": 0, "type": "x", "data": ' + b"[" * 100_000 + b"\n"),
        "line of a log",
        id="deep",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "why"), WRONG)
async def test_a_file_that_is_not_right_is_refused_whole(
    wrong: Callable[[bytes], bytes], why: str, good: bytes, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "log.db")
    with pytest.raises(InputError, match=why):
        await taken_in(store, pieces(wrong(good)))
    assert await store.list_tasks() == []
    await taken_in(store, pieces(good, 700))
    assert [row.task_id for row in await store.list_tasks()] == ["t"]
    await store.aclose()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), change=st.integers(0, 255), anywhere=st.booleans())
async def test_a_file_with_any_byte_changed_or_missing_brings_in_nothing_else(
    place: int, change: int, anywhere: bool, good: bytes, tmp_path: Path
) -> None:
    # Most of it is one letter in a content: the rest is where mistakes hide.
    places = [at for at in range(len(good)) if anywhere or good[at] != ord("x")]
    at = places[place % len(places)]
    cut = change == 0
    damaged = good[:at] if cut else good[:at] + bytes([good[at] ^ change]) + good[at + 1 :]
    store = SqliteStore(tmp_path / f"log{at}-{change}.db")
    try:
        await taken_in(store, pieces(damaged, 50_000))
    except InputError:
        assert await store.list_tasks() == []
    else:
        async with exported(store, ["t"]) as given_back:
            assert b"".join([piece async for piece in given_back]) == good
    await store.aclose()


def lines(data: bytes) -> Iterator[dict[str, Any]]:
    for name, body in files_in(data):
        if name.endswith(".jsonl"):
            yield from map(json.loads, body.splitlines())


def test_the_file_is_one_that_other_programs_read(good: bytes) -> None:
    """As docs/reference/export.md has it."""
    rows = list(lines(good))
    events = [
        event
        for row in rows
        for event in (row["data"] if row["type"] == "+" else [[row["type"], row["data"]]])
    ]
    assert rows[-1]["seq"] == len(events)
    assert events[0][0] == "task_submitted"
    assert events[-1][0] == "task_completed"
