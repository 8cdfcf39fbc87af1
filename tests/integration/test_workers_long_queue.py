"""A queue of thousands: what a worker takes from it costs no more than from a short one."""

from __future__ import annotations

import pytest
from workers_here import Here, ended, submitted

from workers import step

pytestmark = pytest.mark.anyio
WAITING = 3_000
_WAKE = f"SELECT count(wake('x' || n, 'nobody:', 9)) FROM generate_series(1, {WAITING}) n"
_READ = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = '{}'"


async def test_a_task_is_taken_without_going_through_all_that_wait(here: Here) -> None:
    async with here.replan() as replan:
        first = await submitted(replan, step("a", "do"))
        here.sql(f"{_WAKE}; ANALYZE")
        async with here.worker(spec={"takeover": 60.0}, concurrency=1) as worker:
            await ended(worker, first)
            for n in range(20):
                await ended(worker, await submitted(replan, step(f"b{n}", "do")))
    await here.until("SELECT count(*) FROM procrastinate_jobs WHERE queue_name <> 'nobody:'", "0\n")
    await here.until(
        "SELECT idx_scan > 20 FROM pg_stat_user_tables WHERE relname = 'procrastinate_jobs'", "t\n"
    )
    assert int(here.sql(_READ.format("procrastinate_jobs"))) < 10 * WAITING, (
        "each of 21 fetches read them all"
    )


@pytest.mark.parametrize("table", ["procrastinate_jobs", "task"])
async def test_what_has_grown_manyfold_is_counted_before_the_server_does_it_by_itself(
    here: Here, table: str
) -> None:
    async with here.replan() as replan:
        await submitted(replan, step("a", "do"), task_id="t", queue="nobody")
        here.sql(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        grown = f"SELECT reltuples >= {WAITING} FROM pg_class WHERE relname = '{table}'"
        async with here.worker(spec={"takeover": 0.3}, queues=["default"]):
            here.sql(_WAKE if table == "procrastinate_jobs" else _more_tasks())
            await here.until(grown, "t\n")
            await ended(replan, await submitted(replan, step("b", "do")))


def _more_tasks() -> str:
    names = "request, description, status, created, updated, last_seq, epoch"
    return f"INSERT INTO task (task_id, ended, {names}) SELECT 'x' || n, true, {names} FROM task, generate_series(1, {WAITING}) n WHERE task_id = 't'"
