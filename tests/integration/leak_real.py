"""Whole tasks in real time, with real threads, files and sockets; and what of these there is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from run_tasks import plan, step, verdict

from replan import Replan, tool
from replan.config import Settings
from replan.core.state.task import State
from replan.errors import ReplanError, TaskEnded
from replan.run.orchestrator import Drive
from replan.run.service.tasks import Service
from replan.run.session.context import Run
from replan.run.steps.executor import Executor
from replan.store.sqlite import SqliteStore
from replan.testing import EndpointFault, ScriptedEndpoint
from replan.tools.functions.context import ToolContext
from replan.tools.functions.source import FunctionSource

OURS = (Run, State, Executor, Drive, Service, SqliteStore, FunctionSource, Replan)
AT_ONCE = 5


# ── tools ──


@tool(effect="reads")
async def look(n: int) -> int:
    """Look."""
    await asyncio.sleep(n / 1_000)
    return n


@tool(effect="once")
def pay(n: int, ctx: ToolContext) -> str:
    """Pay, in a thread; much is said about it."""
    ctx.wait(n / 1_000)
    return "x" * 5_000


@tool(effect="repeatable")
async def walk(n: int) -> AsyncIterator[Any]:
    """Walk, step by step."""
    for at in range(3):
        yield (at, 3)
        await asyncio.sleep(n / 3_000)
    yield n


@tool(effect="reads")
def climb(n: int) -> Iterator[Any]:
    """Climb, in a thread."""
    for at in range(3):
        yield (at, 3)
    yield n


@tool(effect="reads")
async def hang(n: int) -> None:
    """Hang until it is cancelled."""
    await asyncio.get_running_loop().create_future()


@tool(effect="once")
def block(n: int, ctx: ToolContext) -> None:
    """Hang in a thread until the call is cancelled."""
    ctx.wait()


@tool(effect="once")
async def fail(n: int) -> None:
    """Fail."""
    raise ValueError("no")


@tool(effect="reads")
async def leave(n: int) -> None:
    """End in a way of its own."""
    raise asyncio.CancelledError


TOOLS = [look, pay, walk, climb, hang, block, fail, leave]
KINDS = ("look", "look", "pay", "pay", "walk", "walk", "climb", "climb", "hang", "block", "fail", "leave")
FAULTS = ("status", "cut", "ends_early", "hang", "garbage", "drop")


def some_plan(rng: random.Random) -> dict[str, Any]:
    """A few steps in parallel and in a row."""
    steps = []
    for at in range(rng.randint(1, 5)):
        needs = [f"s{rng.randrange(at)}"] if at and rng.random() < 0.5 else []
        kind = rng.choice(KINDS[:8] if rng.random() < 0.6 else KINDS)
        more: dict[str, Any] = {"timeout_secs": 0.02} if rng.random() < 0.2 else {}
        if kind in ("pay", "block", "fail"):
            more["repeat"] = True  # two steps may be drawn that do the same
        steps.append(step(f"s{at}", kind, *needs, parameters={"n": rng.randint(0, 20)}, **more))
    return plan(*steps)


# ── runs ──


async def first_run(db: Path) -> None:
    """Runs that load what the libraries load once a process: for each kind of answer and fault."""
    answers = {"execution_plan": plan(step("a", "pay", parameters={"n": 0})), "evaluation": verdict()}
    with ScriptedEndpoint(answers) as endpoint:
        async with Replan(None, TOOLS, db=db, endpoint=endpoint.url) as replan:
            for fault in FAULTS:
                if fault != "hang":
                    endpoint.faults.append(EndpointFault(fault))  # type: ignore[arg-type]
                    await replan.run("do it", timeout=600.0)
            assert (await replan.run("do it", timeout=600.0)).is_success


async def some_runs(
    count: int,
    seed: int,
    db: Path,
    between: Callable[[int], None] = lambda _: None,
    faults: Sequence[str] = FAULTS,
) -> Counter[str]:
    """So many tasks on one `Replan` of their own, five at a time; how they ended.

    `between` is told how many have been run, while none runs.
    """
    rng = random.Random(seed)
    answers = {"execution_plan": lambda _: some_plan(rng), "evaluation": verdict()}
    ends: Counter[str] = Counter()
    settings = Settings(llm={"max_retries": 0, "timeout_secs": 5.0})  # type: ignore[arg-type]
    with ScriptedEndpoint(answers) as endpoint:
        async with Replan(
            None, TOOLS, db=db, settings=settings, endpoint=endpoint.url, max_output_bytes=1_024
        ) as replan:
            for start in range(0, count, AT_ONCE):
                some = range(start, min(start + AT_ONCE, count))
                for ended in await asyncio.gather(*(one_run(replan, endpoint, rng, faults) for _ in some)):
                    ends[ended] += 1
                endpoint.requests.clear()
                endpoint.headers.clear()
                between(start + AT_ONCE)
            if rng.random() < 0.5:  # one is still at work when the block is left
                last = step("a", rng.choice(["hang", "block"]), parameters={"n": 1})
                await replan.submit("wait", plan=plan(last), evaluation="steps")
                await asyncio.sleep(rng.random() / 50)
    return ends


async def one_run(
    replan: Replan, endpoint: ScriptedEndpoint, rng: random.Random, faults: Sequence[str]
) -> str:
    """One task that is stopped, or not, in some way."""
    if rng.random() < 0.2:
        endpoint.faults.append(EndpointFault(rng.choice(faults)))  # type: ignore[arg-type]
    given: dict[str, Any] = {"timeout": rng.choice([0.02, 0.2, 3, 3, 3])}
    if rng.random() < 0.5:
        given |= {"plan": some_plan(rng), "evaluation": "steps"}
    after = rng.random() / 5
    match rng.choice(["waits", "waits", "cancels", "is cut", "is cut twice", "is timed", "watches"]):
        case "waits":
            return (await replan.run("do it", **given)).status
        case "is timed":
            try:
                async with asyncio.timeout(after):
                    return (await replan.run("do it", **given)).status
            except TimeoutError:
                return "left"
        case ("is cut" | "is cut twice") as how:
            running = asyncio.create_task(replan.run("do it", **given))
            await asyncio.sleep(after)
            for _ in range(2 if how == "is cut twice" else 1):
                running.cancel()
                await asyncio.sleep(rng.random() / 100)
            await asyncio.wait({running})
            return "left" if running.cancelled() else running.result().status
        case how:
            task_id = await replan.submit("do it", **given)
            waiting = asyncio.create_task(replan.wait(task_id))
            if how == "watches":
                watch = replan.watch(task_id, ephemeral=rng.random() < 0.5)
                with contextlib.suppress(StopAsyncIteration, ReplanError):
                    for _ in range(rng.randint(0, 12)):
                        await anext(watch)
                await watch.aclose()  # type: ignore[attr-defined]
            else:
                await asyncio.sleep(after)
                with contextlib.suppress(TaskEnded):
                    await replan.cancel(task_id, "enough", "ann")
            return (await waiting).status


# ── what there is ──


class Held(NamedTuple):
    """What this process holds."""

    threads: tuple[str, ...]
    files: tuple[str, ...]
    """Each open descriptor: the kind, or the path."""
    tasks: int
    objects: tuple[tuple[str, int], ...]


def held() -> Held:
    """What is held now; what only waits for the collector is none of it."""
    gc.collect()
    files: list[str] = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            files.append(os.readlink(f"/proc/self/fd/{fd}").partition(":[")[0])
    found = Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, OURS))
    return Held(
        tuple(
            sorted(
                thread.name
                for thread in threading.enumerate()
                if not thread.name.startswith("asyncio_")  # the loop's own pool
            )
        ),
        tuple(sorted(files)),
        len(asyncio.all_tasks()),
        tuple(sorted(found.items())),
    )


async def held_at_rest(others: Collection[threading.Thread] = ()) -> Held:
    """What is held once threads that were told to end have done so; `others`: threads of earlier tests."""
    for thread in threading.enumerate():
        if thread not in others and not thread.name.startswith(("asyncio_", "MainThread")):
            await asyncio.to_thread(thread.join, 10)
    gc.collect()
    for _ in range(10):  # the loop closes generators that were only dropped
        await asyncio.sleep(0)
    return held()


def beyond(after: Held, before: Held) -> Held:
    """What is held after and was not before. What earlier tests have left may go in between."""
    objects = Counter(dict(after.objects)) - Counter(dict(before.objects))
    return Held(
        tuple(sorted((Counter(after.threads) - Counter(before.threads)).elements())),
        tuple(sorted((Counter(after.files) - Counter(before.files)).elements())),
        max(0, after.tasks - before.tasks),
        tuple(sorted(objects.items())),
    )


NOTHING = Held((), (), 0, ())
