"""A log in PostgreSQL while the server dies, comes back, and answers are lost on the way."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from postgres_server import PostgresServer
from replan.core.events import CancelRequested, Record, StepReady, TaskCompleted, TaskSubmitted
from replan.errors import StaleWriter, StoreBusy, StoreError, StoreUnusable
from replan.ports import Appended, Claim, NewArtifact
from replan.store.postgres.address import Address
from replan.store.postgres.faults import FAULTS, passes
from replan.store.postgres.line import Line
from replan.store.postgres.store import PostgresStore
from tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio
SECS = 60.0


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[TcpProxy]:
    with TcpProxy(postgres_server.port) as made:
        yield made


@asynccontextmanager
async def opened(address: str, **options: float) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(address, **options)  # type: ignore[arg-type]
    try:
        yield store
    finally:
        await store.aclose()


def through(proxy: TcpProxy, address: str) -> str:
    return f"{address.rsplit(':', 1)[0]}:{proxy.port}/{address.rsplit('/', 1)[1]}"


def steps(first: int, count: int) -> list[StepReady]:
    return [StepReady(step_id=f"s{n}") for n in range(first, first + count)]


def names(records: list[Record]) -> list[str]:
    return [record.event.step_id for record in records if isinstance(record.event, StepReady)]


async def claimed(store: PostgresStore, task_id: str = "t") -> Claim:
    await store.create(task_id, TaskSubmitted(description="do it"), 1.0)
    return await store.claim(task_id)


@pytest.mark.parametrize("lost", ["answer", "question"])
@pytest.mark.parametrize("together", [1, 3])
async def test_an_append_on_a_lost_way_is_there_once(
    proxy: TcpProxy, postgres_database: str, lost: str, together: int
) -> None:
    async with opened(through(proxy, postgres_database)) as store, asyncio.timeout(SECS):
        claims = [await claimed(store, f"t{n}") for n in range(together)]
        for turn in range(5):
            (proxy.lose_answers if lost == "answer" else proxy.lose_questions)()
            placed = await asyncio.gather(
                *(store.append(claim, steps(turn, 1), ts=2.0, round=1) for claim in claims)
            )
            assert placed == [Appended(turn + 2, turn + 2)] * together
        for claim in claims:
            assert names(await store.read(claim.task_id)) == [f"s{n}" for n in range(5)]
    assert proxy.cuts >= 5


@pytest.mark.parametrize("what", ["create", "claim", "signal", "artifact", "release", "seal"])
async def test_what_else_is_written_on_a_lost_way_is_there_once(
    proxy: TcpProxy, postgres_database: str, what: str
) -> None:
    async with opened(through(proxy, postgres_database)) as store, asyncio.timeout(SECS):
        claim = await claimed(store)
        for turn in range(4):
            proxy.lose_answers()
            match what:
                case "create":
                    assert await store.create(f"n{turn}", TaskSubmitted(description="new"), 1.0)
                    assert [record.seq for record in await store.read(f"n{turn}")] == [1]
                case "claim":
                    await store.create(f"n{turn}", TaskSubmitted(description="new"), 1.0)
                    proxy.lose_answers()
                    new = await store.claim(f"n{turn}")
                    assert await store.append(new, steps(0, 1), ts=2.0, round=1) == Appended(2, 2)
                case "signal":
                    record = await store.signal("t", CancelRequested(by=f"{turn}"), 2.0)
                    assert record.seq == turn + 2
                case "artifact":
                    given = NewArtifact(f"a{turn}", bytes([turn]) * 3_000_000)
                    await store.append(claim, steps(turn, 1), ts=2.0, round=1, artifacts=[given])
                    assert await store.artifact("t", f"a{turn}") == given.data
                case "release":
                    await store.release(claim)
                    claim = await store.claim("t")
                case _:
                    assert len(await store.seal_key()) == 32
        if what == "signal":
            said = await store.read("t", signals_only=True)
            assert [getattr(one.event, "by", "") for one in said] == ["0", "1", "2", "3"]


async def test_a_mute_server_is_left_for_a_new_connection(proxy: TcpProxy, postgres_database: str) -> None:
    async with opened(through(proxy, postgres_database), answer_secs=0.3) as store, asyncio.timeout(SECS):
        claim = await claimed(store)
        proxy.mute = True
        appended = store.append(claim, steps(0, 1), ts=2.0, round=1)
        reading = asyncio.ensure_future(store.read("t"))
        done, _ = await asyncio.wait({appended, reading}, timeout=1.0)
        assert not done
        proxy.mute = False
        assert await appended == Appended(2, 2)
        await reading
        assert names(await store.read("t")) == ["s0"]


async def test_a_server_that_stays_away_is_said_and_the_chain_is_torn(
    proxy: TcpProxy, postgres_database: str
) -> None:
    async with opened(through(proxy, postgres_database), busy_secs=0.5) as store, asyncio.timeout(SECS):
        claim = await claimed(store)
        await store.append(claim, steps(0, 1), ts=2.0, round=1)
        proxy.refuses = True
        proxy.cut_all()
        with pytest.raises(StoreBusy, match="does not answer"):
            await store.append(claim, steps(1, 1), ts=2.0, round=1)
        proxy.refuses = False
        with pytest.raises(StoreBusy):  # what came before it is not there
            await store.append(claim, steps(2, 1), ts=2.0, round=1)
        again = await store.claim("t", steal=True)
        await store.append(again, steps(9, 1), ts=2.0, round=1)
        assert names(await store.read("t")) == ["s0", "s9"]


async def test_no_server_is_told_with_its_address_and_without_its_password() -> None:
    with pytest.raises((StoreBusy, StoreUnusable), match=r"127\.0\.0\.1:1") as caught:
        PostgresStore("postgresql://ann:hunter2@127.0.0.1:1/tasks")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_a_server_that_dies_and_comes_back_has_all_that_it_acknowledged(how: signal.Signals) -> None:
    server = PostgresServer(fsync=True)
    try:
        async with opened(server.url()) as store, asyncio.timeout(SECS):
            claims = [await claimed(store, f"t{n}") for n in range(5)]
            placed: dict[str, list[Appended]] = {claim.task_id: [] for claim in claims}

            busy = asyncio.Event()

            async def drive(claim: Claim) -> None:
                for n in range(60):
                    if min(map(len, placed.values())) >= 20:
                        busy.set()
                    placed[claim.task_id].append(await store.append(claim, steps(n, 1), ts=2.0, round=1))

            driving = asyncio.gather(*map(drive, claims))
            await busy.wait()
            await asyncio.to_thread(server.stop, how)
            await asyncio.to_thread(server.start)
            await driving
            for claim in claims:
                assert names(await store.read(claim.task_id)) == [f"s{n}" for n in range(60)]
                assert [at.last for at in placed[claim.task_id]] == list(range(2, 62))
            with pytest.raises(StaleWriter):
                await store.append(Claim("t0", claims[0].fence - 1), steps(0, 1), ts=2.0, round=1)
    finally:
        server.close()


async def test_a_task_whose_process_has_gone_is_free_and_one_that_lives_is_not(
    proxy: TcpProxy, postgres_database: str
) -> None:
    async with opened(postgres_database) as other, asyncio.timeout(SECS):
        async with opened(through(proxy, postgres_database)) as store:
            await claimed(store)
            assert (await other.summary("t")).held
            proxy.cut_all()  # its connection is lost, and it comes back
            while not (await other.summary("t")).held:
                await store.summary("t")
        while (await other.summary("t")).held:  # the server has yet to notice that the cut connection is gone
            await other.read("t")
        claim = await other.claim("t")
        await other.append(claim, [TaskCompleted()], ts=3.0, round=1)


@pytest.mark.parametrize("turns", range(1, 5))
async def test_an_answer_that_came_while_nobody_could_look_is_taken_though_its_time_is_over(
    postgres_database: str, turns: int
) -> None:
    line = Line(Address(postgres_database), answer_secs=0.25)

    async def taken(size: int) -> bool:
        asking = asyncio.ensure_future(line.ask("SELECT repeat('x', %(size)s::int)", {"size": size}))
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - as if the process were frozen
        try:
            return await asking == [("x" * size,)]
        except FAULTS:  # on a busy machine it had not come
            return False

    for size in (1, 100_000):
        while not await answers(line):
            pass
        assert any([await taken(size) for _ in range(3)])
    line.drop()


async def test_an_answer_that_does_not_come_in_time_is_a_fault_that_passes(
    proxy: TcpProxy, postgres_database: str
) -> None:
    line = Line(Address(through(proxy, postgres_database)), answer_secs=0.1)
    for mute in (False, True, False):
        proxy.mute = False
        while not await answers(line):
            pass
        proxy.mute = mute
        with pytest.raises(FAULTS) as raised:
            await line.ask("SELECT pg_sleep(60)")
        assert passes(raised.value)
    line.drop()


async def answers(line: Line) -> bool:
    try:
        return await line.ask("SELECT 1") == [(1,)]
    except FAULTS:
        return False


SEEDS = [pytest.param(1, id="sample"), *(pytest.param(n, marks=pytest.mark.prove) for n in range(2, 12))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_happens_on_the_way_no_log_has_a_gap_or_an_event_twice(
    proxy: TcpProxy, postgres_database: str, seed: int
) -> None:
    choose = random.Random(seed)
    over = asyncio.Event()
    async with (
        opened(f"{through(proxy, postgres_database)}?connect_timeout=2", answer_secs=0.5) as store,
        asyncio.timeout(2 * SECS),
    ):
        claims = [await claimed(store, f"t{n}") for n in range(4)]

        done, enough = 0, asyncio.Event()

        async def drive(claim: Claim) -> list[Appended]:
            nonlocal done
            placed: list[Appended] = []
            for n in range(60):
                placed.append(await store.append(claim, steps(n * 2, 2), ts=float(n), round=n))
                done += 1
                enough.set()
            return placed

        async def written(more: int) -> None:
            """Return when so many more appends are there, or all."""
            until = min(done + more, 240)
            while done < until:
                enough.clear()
                await enough.wait()

        async def shout() -> int:
            said = 0
            while not over.is_set():
                await store.signal(f"t{said % 4}", CancelRequested(by=f"{said}"), 3.0)
                said += 1
            return said

        async def trouble() -> None:
            while done < 240:
                await written(choose.randint(1, 40))
                match choose.randrange(4):
                    case 0:
                        proxy.lose_answers(choose.randint(1, 3))
                    case 1:
                        proxy.lose_questions(choose.randint(1, 3))
                    case 2:
                        await asyncio.to_thread(proxy.cut_all)
                    case _:
                        proxy.mute = True
                        await asyncio.sleep(choose.random())  # so long nothing is heard
                        proxy.mute = False

        shouting, troubling = asyncio.ensure_future(shout()), asyncio.ensure_future(trouble())
        placed = await asyncio.gather(*map(drive, claims))
        over.set()
        await troubling
        said = await shouting
        heard = 0
        for claim, places in zip(claims, placed, strict=True):
            records = await store.read(claim.task_id)
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            assert names(records) == [f"s{n}" for n in range(120)]
            for n, place in enumerate(places):
                assert names(records[place.first - 1 : place.last]) == [f"s{2 * n}", f"s{2 * n + 1}"]
            heard += sum(isinstance(record.event, CancelRequested) for record in records)
        assert heard == said


async def test_a_write_that_is_tried_is_refused_where_the_server_takes_reads_only(
    postgres_server: PostgresServer, postgres_database: str
) -> None:
    name = postgres_database.rpartition("/")[2]
    async with opened(postgres_database) as store, asyncio.timeout(SECS):
        await store.try_write()
        postgres_server.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        postgres_server.sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = "
            f"'{name}' AND pid <> pg_backend_pid()"
        )
        with contextlib.suppress(StoreBusy):  # its way was cut just now
            await store.try_write()
        with pytest.raises(StoreError, match="read-only"):
            await store.try_write()
