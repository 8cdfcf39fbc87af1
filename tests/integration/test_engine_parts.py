"""What the workers stand on: names of procrastinate, the pace, why nobody takes a task, and handing over."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, tool
from replan.core.limits.needs import Needs
from replan.engine.procrastinate import jobs as ours
from replan.engine.procrastinate.jobs import Back, Jobs, Pace
from replan.engine.procrastinate.queue import Worker, why_not
from replan.errors import StoreError, TaskHeld
from replan.run.orchestrator import drive
from replan.run.session.stops import HandedOver

procrastinate = pytest.importorskip("procrastinate", reason="needs the package procrastinate")
SECS = 30.0

# ── procrastinate, as it is pinned ──


def test_the_functions_that_are_called_by_their_numbers_are_those_of_the_schema() -> None:
    from procrastinate.schema import SchemaManager

    own = Path(ours.__file__).with_name("queue.sql").read_text()
    called = set(re.findall(r"procrastinate_\w+_v\d+", inspect.getsource(ours) + own)) - {ours.ANY}
    made = set(re.findall(r"CREATE FUNCTION (procrastinate_\w+_v\d+)", SchemaManager.get_schema()))
    assert called
    assert called <= made
    assert f"'{ours.ANY}'" in SchemaManager.get_schema()


def test_what_is_overridden_is_what_a_worker_calls() -> None:
    from procrastinate import manager, worker

    source = inspect.getsource(worker)
    for name, method in vars(Jobs).items():
        if hasattr(manager.JobManager, name) and not name.startswith("__"):
            assert f"job_manager.{name}(" in source, name
            theirs = inspect.signature(getattr(manager.JobManager, name))
            assert list(inspect.signature(method).parameters) == list(theirs.parameters), name
    asked = set(re.findall(r"job_manager\.(\w+)\(", source))
    assert asked - set(vars(Jobs)) == {"listen_for_jobs"}, (
        "all that asks the database outlives a lost connection"
    )


def test_a_worker_is_made_with_options_that_there_are() -> None:
    from procrastinate import worker

    from replan.engine.procrastinate import worker as adapter

    options = set(inspect.signature(worker.Worker.__init__).parameters)
    given = re.search(r"app\._worker\((.*?)\n        \)", inspect.getsource(adapter), re.S)
    assert given is not None
    assert set(re.findall(r"(\w+)=", given.group(1))) <= options


# ── the pace ──


@pytest.mark.parametrize("takeover", [0.3, 3.0, 30.0, 600.0])
def test_what_a_dead_worker_has_is_taken_over_in_time_and_a_living_one_is_not_taken_for_dead(
    takeover: float,
) -> None:
    pace = Pace.of(takeover)
    assert pace.stale + pace.sweep + pace.poll < takeover
    assert pace.stale > 3 * pace.beat, "some heartbeats may be lost"


@pytest.mark.parametrize(
    ("error", "tries", "secs"),
    [
        (HandedOver(), 3, 0),
        (asyncio.CancelledError(), 3, 0),
        (TaskHeld("held"), 9, 1),
        (StoreError("away"), 0, 1),
        (StoreError("away"), 4, 16),
        (ValueError("no"), 90, 60),
    ],
)
def test_a_job_comes_back_at_once_or_after_growing_pauses(
    error: BaseException, tries: int, secs: int
) -> None:
    from procrastinate import utils
    from procrastinate.jobs import Job

    job = Job(id=1, queue="q", lock="t", queueing_lock=None, task_name="replan.activate", attempts=tries)
    before = utils.utcnow()
    decision = Back().get_retry_decision(exception=error, job=job)
    assert decision.retry_at is not None
    assert 0 <= (decision.retry_at - before).total_seconds() - secs < 5


# ── why nobody takes a task ──


def worker(*tools: str, queues: tuple[str, ...] = (), alive: bool = True) -> Worker:
    return Worker("process 1", queues, Needs(tools=tools), 4, alive, 0.0, 0)


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        ([], "no worker is running"),
        ([worker("a", "b", alive=False)], "no worker is running"),
        ([worker("a", "b", queues=("other",))], "no worker serves the queue 'default'"),
        ([worker("b")], "a worker that has the tool 'a': the worker that is running does not"),
        ([worker(), worker("b")], "a worker that has the tool 'a': none of the 2 workers does"),
        ([worker("b"), worker("a", "b")], ""),
        ([worker("b", queues=("default",)), worker("a", "b", queues=("other",))], "has the tool 'a'"),
    ],
)
def test_it_is_said_what_a_task_waits_for(workers: list[Worker], why: str) -> None:
    said = why_not("default", Needs(tools=("a", "b")), workers)
    assert (why in said) if why else said == ""


# ── handing over ──


class Shop:
    """Tools that wait in one call until they are let go of."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.waits = asyncio.Event()
        self.go_on = asyncio.Event()

    def tools(self) -> list[Any]:
        @tool(effect="once")
        async def sell(n: int, wait: bool = False) -> int:
            if wait:
                self.waits.set()
                await self.go_on.wait()
            self.made.append(n)
            return n

        return [sell]


def drive_of(task_id: str) -> asyncio.Task[Any]:
    """Who drives the task here."""
    return next(task for task in asyncio.all_tasks() if task.get_name() == task_id)


def chain() -> list[dict[str, Any]]:
    return [
        {"step_id": f"s{n}", "tool": "sell", "parameters": {"n": n, "wait": n == 1},
         "dependencies": [f"s{n - 1}"] if n else []}
        for n in range(4)
    ]  # fmt: skip


def wide() -> list[dict[str, Any]]:
    return [{"step_id": f"s{n}", "tool": "sell", "parameters": {"n": n, "wait": n < 2}} for n in range(30)]


def items() -> list[dict[str, Any]]:
    return [
        {"step_id": "s", "tool": "sell", "for_each": list(range(30)),
         "parameters": {"n": "${item}", "wait": False}},
        {"step_id": "w", "tool": "sell", "parameters": {"n": 99, "wait": True}},
        {"step_id": "z", "tool": "sell", "parameters": {"n": 100}, "dependencies": ["s", "w"]},
    ]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("steps", [chain, wide, items])
async def test_a_task_that_is_handed_over_lets_its_calls_end_and_goes_on_elsewhere_with_the_rest(
    tmp_path: Path, steps: Any
) -> None:
    shop, plan = Shop(), {"steps": steps()}
    options: dict[str, Any] = {"db": tmp_path / "log.db", "evaluation": "steps", "parallel_max_concurrent": 2}
    async with (
        Replan(tools=shop.tools(), **options) as first,
        Replan(tools=shop.tools(), **options) as second,
    ):
        task_id = await first.submit("sell", plan=plan)
        driving = drive_of(task_id)
        async with asyncio.timeout(SECS):
            await shop.waits.wait()
            first.service.parts.leaving.set()
            shop.go_on.set()
            state = await driving
            assert not state.ended
            assert state.waiting is None
            before = list(shop.made)
            result = await second.resume(task_id)
        assert result.succeeded, result.failure
        assert len(before) < len(shop.made)
        assert len(shop.made) == len(set(shop.made)), "no effect twice"


@pytest.mark.anyio
async def test_a_process_that_leaves_begins_no_task_and_lets_one_end_that_has_nothing_left_to_do(
    tmp_path: Path,
) -> None:
    shop = Shop()
    options: dict[str, Any] = {"db": tmp_path / "log.db", "evaluation": "steps"}
    only = {"steps": [{"step_id": "s", "tool": "sell", "parameters": {"n": 1, "wait": True}}]}
    async with Replan(tools=shop.tools(), **options) as replan:
        last = await replan.submit("sell", plan=only)
        async with asyncio.timeout(SECS):
            await shop.waits.wait()
            replan.service.parts.leaving.set()
            shop.go_on.set()
            assert (await replan.wait(last)).succeeded
            new = await replan.submit(
                "sell more", plan={"steps": [{"step_id": "s", "tool": "sell", "parameters": {"n": 2}}]}
            )
            await asyncio.wait({drive_of(new)})
            state = await replan.service.state(new)
            assert (state.ended, shop.made) == (False, [1])
            replan.service.parts.leaving.now = False
            assert (await drive(new, replan.service.parts)).ended
