"""The rows on PostgreSQL. The address of a row's own database stands in its folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from bench.rows import WIDTH, Layers, Ready


def address_of(folder: Path) -> str:
    return (folder / "address").read_text()


def level_of(address: str) -> Callable[[], Awaitable[str]]:
    """What the server says of every commit there."""

    async def level() -> str:
        import psycopg

        async with await psycopg.AsyncConnection.connect(address) as connection:
            rows = [await (await connection.execute(f"SHOW {name}")).fetchone() for name in _SHOWN]
        fsync, committing = (row[0] for row in rows if row is not None)
        return f"fsync {fsync}/{committing}"

    return level


_SHOWN: tuple[Any, ...] = ("fsync", "synchronous_commit")


def replan_row(*, by_worker: bool) -> Callable[[Layers, Path], AbstractAsyncContextManager[Ready]]:
    """`by_worker`: handed in to the queue, and taken from it by a worker, here in the same process."""

    @asynccontextmanager
    async def row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
        from bench.overhead import nothing, plan_of
        from replan import Replan
        from replan.config import Settings

        given: dict[str, Any] = {"orchestrator": {"parallel_max_concurrent": WIDTH}}
        if by_worker:
            given["engine"] = {"kind": "procrastinate"}
        address = address_of(folder)
        plan = plan_of(layers)
        async with Replan(
            tools=[nothing], db=address, settings=Settings.model_validate(given), evaluation="steps"
        ) as replan:

            async def once() -> None:
                result = await replan.run("nothing", plan=plan)
                assert result.is_success, result.failure

            stop = asyncio.Event()
            working = asyncio.create_task(replan.work(concurrency=4, stop=stop)) if by_worker else None
            yield Ready(once, level_of(address))
            if working is not None:
                stop.set()
                await working

    return row


@asynccontextmanager
async def langgraph_row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
    """Its saver in step, as Replan's log is."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    from bench.overhead import langgraph_graph, langgraph_once

    address = address_of(folder)
    async with AsyncPostgresSaver.from_conn_string(address) as saver:
        await saver.setup()
        compiled = langgraph_graph(layers).compile(checkpointer=saver)
        yield Ready(langgraph_once(compiled, durability="sync"), level_of(address))


@asynccontextmanager
async def dbos_row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
    from bench.overhead import dbos_flow

    address = address_of(folder)
    with dbos_flow(layers, address) as once:
        yield Ready(once, level_of(address))


@asynccontextmanager
async def procrastinate_row(layers: Layers, folder: Path) -> AsyncIterator[Ready]:
    """Each step is a job of the queue: deferred, fetched, run and finished; a layer's together, when the one before is done."""
    from procrastinate import App, PsycopgConnector

    address = address_of(folder)
    app = App(connector=PsycopgConnector(conninfo=address))
    left = 0
    done = asyncio.Event()

    @app.task(name="nothing")
    async def nothing(i: int) -> int:
        nonlocal left
        left -= 1
        if not left:
            done.set()
        return i

    async def once() -> None:
        nonlocal left
        for layer in layers:
            left = len(layer)
            done.clear()
            await nothing.batch_defer_async(*({"i": n} for n, _ in enumerate(layer)))
            await done.wait()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        working = asyncio.create_task(
            app.run_worker_async(
                concurrency=WIDTH,
                fetch_job_polling_interval=0.02,  # 5 as it comes, which is what a job waits whose notification was missed
                install_signal_handlers=False,
                delete_jobs="always",
            )
        )
        yield Ready(once, level_of(address))
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
