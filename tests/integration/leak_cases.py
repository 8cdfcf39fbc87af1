"""Random tasks with random disturbances: what is run, and what may be left of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leak_tools import (
    EFFECTS,
    ENDLESS,
    ERRORS,
    FORMS,
    MODEL_FAULTS,
    Act,
    Misbehaving,
    MisbehavingModel,
    ThreadAwareLoop,
    TimelyStore,
)
from run_tasks import Bench, action, bench, plan, step, verdict

from replan.core.events import TERMINAL
from replan.errors import TaskEnded, TaskHeld
from replan.testing import MemoryStore

LATEST_NUDGE_SECS = 12
PATIENCE_SECS = 40.0
"""A task that has not ended by itself by then is cancelled by a person."""
SETTLE_SECS = 8.0
"""More than all of the grace that cancelled work is given (§10), one after the other."""


@dataclass(frozen=True)
class Piece:
    """One step of a plan."""

    name: str
    kind: str
    needs: tuple[str, ...]
    refers: bool
    condition: str
    tool: str
    limit: int | None
    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Nudge:
    """One disturbance: after so many seconds, and then so many turns of the event loop."""

    what: str
    secs: int
    turns: int
    records: int = 0
    """Of a watcher: how many it reads before it leaves."""
    ephemeral: bool = False


@dataclass(frozen=True)
class Case:
    pieces: tuple[Piece, ...]
    on_disk: bool
    planned: bool
    """By the model, which judges as well."""
    model_at: str
    model_does: str
    limit: int
    parallel: bool
    budget: dict[str, Any]
    nudges: tuple[Nudge, ...]


# ── what may be drawn ──

DOES = ("answers",) * 30 + ("answers at length",) * 6 + (*ERRORS, *sorted(ENDLESS), *sorted(ENDLESS))
NUDGES = (
    *("cancel", "cancel", "cut", "cut", "cut twice", "a cancel is cut", "drive too"),
    *("leaves", "breaks off", "is cut", "stays", "never reads") * 2,
)
MODEL_DOES = ("answers",) * 20 + ("is slow", "hangs", "deaf", "talks nonsense", *MODEL_FAULTS)
LIMITS: dict[str, tuple[Any, ...]] = {
    "max_tool_calls": (0, 1, 3, 5, 8),
    "max_llm_calls": (0, 1, 2),
    "max_tokens": (0, 10, 100_000),
    "max_rounds": (0, 1),
    "max_cost_usd": (0.0,),
}
"""Besides the time, which is drawn for each."""


def drawn(seed: int) -> Case:
    """One case; the same for the same seed. (Each draw is independent, so that 1,000 cases are as many kinds.)"""
    rng = random.Random(seed)
    # Whole seconds everywhere: calls end in the very turn in which limits are reached and people cancel.
    budget: dict[str, Any] = {"task_timeout_secs": rng.choice([None, 300, 300, 1, 3, 7, 12])}
    if rng.random() < 0.25:
        name = rng.choice(sorted(LIMITS))
        budget[name] = rng.choice(LIMITS[name])
    return Case(
        pieces=_pieces(rng),
        on_disk=rng.random() < 0.3,
        planned=rng.random() < 0.4,
        model_at=rng.choice(["tool_selection", "execution_plan", "evaluation"]),
        model_does=rng.choice(MODEL_DOES),
        limit=rng.randint(1, 5),
        parallel=rng.random() < 0.8,
        budget=budget,
        nudges=tuple(_nudge(rng) for _ in range(rng.choice([0, 0, 1, 1, 2, 3, 4]))),
    )


def _pieces(rng: random.Random) -> tuple[Piece, ...]:
    made: list[Piece] = []
    mild = rng.random() < 0.3  # else hardly any task would succeed
    for n in range(rng.randint(1, 8)):
        kind = rng.choice(["one", "one", "actions", "items"])
        count = 1 if kind == "one" else rng.randint(1 if kind == "actions" else 0, 4)
        names = [piece.name for piece in made]
        made.append(
            Piece(
                name=f"s{n}",
                kind=kind,
                needs=tuple(rng.sample(names, rng.randint(0, min(3, len(names))))),
                refers=rng.random() < 0.5,
                condition=rng.choice(["", "", "", "", "yes", "no"]),
                tool=f"{rng.choice(FORMS)}_{rng.choice(EFFECTS)}",
                limit=None if mild else rng.choice([None, None, None, 2, 5]),
                acts=tuple(
                    Act(
                        secs=rng.randint(0, 9),
                        does=rng.choice(["answers", "answers at length"] if mild else DOES),
                        passing=0 if mild else rng.choice([0] * 8 + [1, 2]),
                    )
                    for _ in range(count)
                ),
            )
        )
    return tuple(made)


def _nudge(rng: random.Random) -> Nudge:
    return Nudge(
        what=rng.choice(NUDGES),
        secs=rng.choice([0, 0, rng.randint(0, LATEST_NUDGE_SECS)]),
        turns=rng.choice([rng.randint(0, 12), rng.randint(0, 300)]),
        records=rng.randint(0, 25),
        ephemeral=rng.random() < 0.5,
    )


def written(piece: Piece) -> dict[str, Any]:
    """The step as a plan has it."""
    names = [f"{piece.name}_c{n}" for n in range(len(piece.acts))]
    refers = {"needs": [f"${{{need}.output}}" for need in piece.needs]} if piece.refers else {}
    more: dict[str, Any] = {} if piece.limit is None else {"timeout_secs": piece.limit}
    if piece.condition:
        more["when"] = f"metadata.{piece.condition}"
    if piece.kind == "actions":
        more["actions"] = [action(f"{name}_a", piece.tool, call=name, **refers) for name in names]
        return step(piece.name, "", *piece.needs, **more)
    if piece.kind == "items":
        more["for_each"] = f"${{metadata.{piece.name}_items}}"
    call = "${item}" if piece.kind == "items" else names[0]
    return step(piece.name, piece.tool, *piece.needs, parameters={"call": call, **refers}, **more)


# ── a run of one ──


@dataclass
class Trouble:
    """What the event loop had to complain about."""

    said: list[str] = field(default_factory=list)

    def hear(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.said.append(f"{context.get('message')}: {context.get('exception')!r}")


def run(case: Case, folder: Path) -> str:
    """Run a case on virtual time and check that nothing is left of it; how the task ended."""
    trouble = Trouble()
    before = set(threading.enumerate())
    with asyncio.Runner(loop_factory=ThreadAwareLoop) as runner:
        runner.get_loop().set_exception_handler(trouble.hear)
        ended = runner.run(_Run(case, folder).whole())
        gc.collect()  # an error that nobody has looked at is told when its task goes
        runner.run(asyncio.sleep(0))
    assert trouble.said == []
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert set(threading.enumerate()) <= before
    return ended


class _Run:
    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.folder = folder
        self.cut = False
        self.others = set(threading.enumerate())
        """Threads that earlier tests have left: none of this case's."""

    async def whole(self) -> str:
        case = self.case
        self.source = Misbehaving(
            {f"{p.name}_c{n}": act for p in case.pieces for n, act in enumerate(p.acts)}
        )
        wanted = plan(*map(written, case.pieces))
        chosen = {"tools": [{"tool_id": spec.id, "score": 90} for spec in await self.source.tools()]}
        answers = {"tool_selection": chosen, "execution_plan": wanted, "evaluation": verdict(90)}
        self.model = MisbehavingModel(answers, case.model_at, case.model_does)
        store: Any = TimelyStore(self.folder / "leaks.db") if case.on_disk else MemoryStore()
        self.bench = await bench(self.source, store=store, model=self.model)
        self.store = store
        items = {f"{p.name}_items": [f"{p.name}_c{n}" for n in range(len(p.acts))] for p in case.pieces}
        self.task_id = await self.bench.submit(
            None if case.planned else wanted,
            metadata={"yes": True, "no": False, **items},
            budget=case.budget,
            parallel_max_concurrent=case.limit,
            enable_parallel_execution=case.parallel,
            max_output_bytes=1_000,
        )
        await self._drive_and_disturb()
        ended = await self._to_the_end(self.bench)
        await self._nothing_is_left()
        await self.source.aclose()
        await store.aclose()
        assert len(asyncio.all_tasks()) == 1
        return ended

    async def _drive_and_disturb(self) -> None:
        driving = asyncio.create_task(self.bench.service.drive(self.task_id))
        nudging = [asyncio.create_task(self._nudge(nudge, driving)) for nudge in self.case.nudges]
        done, _ = await asyncio.wait({driving}, timeout=PATIENCE_SECS)
        if not done:
            await self._cancel()
            done, _ = await asyncio.wait({driving}, timeout=SETTLE_SECS)
            assert done, "a cancelled task goes on"
        if not driving.cancelled() and (error := driving.exception()) is not None:
            assert isinstance(error, TaskHeld), repr(error)  # a cancel came before it, and drove
        await self._to_the_end(self.bench, quietly=True)
        if nudging:
            _, waiting = await asyncio.wait(nudging, timeout=LATEST_NUDGE_SECS + SETTLE_SECS)
            assert not waiting, "somebody still waits for news of a task that has ended"
        for nudged in nudging:
            nudged.result()

    async def _cancel(self) -> None:
        with contextlib.suppress(TaskEnded):
            await self.bench.service.cancel(self.task_id, "enough", "ann")

    async def _to_the_end(self, made: Bench, *, quietly: bool = False) -> str:
        """Check the log; a task that was cut off is driven on to its one end."""
        records = await self.store.read(self.task_id)
        assert [record.seq for record in records] == [*range(1, len(records) + 1)]
        if not isinstance(records[-1].event, TERMINAL):
            assert self.cut, "it came to no end though nobody cut it off"
            assert not any(isinstance(record.event, TERMINAL) for record in records)
            driving = asyncio.create_task(self._drive_on())
            done, _ = await asyncio.wait({driving}, timeout=PATIENCE_SECS)
            if not done:
                await self._cancel()
                done, _ = await asyncio.wait({driving}, timeout=SETTLE_SECS)
                assert done, "a cancelled task goes on"
            driving.result()
        ran = (await made.ran(self.task_id)).check()
        return str(ran.result.status)

    async def _drive_on(self) -> None:
        """Drive the task once nobody else does."""
        while True:
            try:
                await self.bench.service.drive(self.task_id)
            except TaskHeld:  # another nudge drives it
                await asyncio.sleep(0.1)
            else:
                return

    async def _nudge(self, nudge: Nudge, driving: asyncio.Task[Any]) -> None:
        await asyncio.sleep(nudge.secs)
        await _turns(nudge.turns)
        match nudge.what:
            case "cancel":
                await self._cancel()
            case "a cancel is cut":
                cancelling = asyncio.create_task(self._cancel())
                self.cut = True  # it may have been the one who drove
                await _turns(nudge.records)
                await _cut(cancelling)
            case "cut" | "cut twice":
                self.cut = True
                driving.cancel()
                if nudge.what == "cut twice":
                    await _turns(nudge.records)
                    driving.cancel()
            case "drive too":
                with contextlib.suppress(TaskHeld):
                    await self.bench.service.drive(self.task_id)
            case _:
                await self._watch(nudge, driving)

    async def _watch(self, nudge: Nudge, driving: asyncio.Task[Any]) -> None:
        watch = self.bench.service.watch(
            self.task_id, ephemeral=nudge.ephemeral, driving=driving if nudge.ephemeral else None
        )
        if nudge.what == "never reads":
            return

        async def read(most: int | None) -> None:
            seen = 0
            last = 0
            async for record in watch:
                assert record.seq in (0, last + 1), "a gap in what is watched"
                last = record.seq or last
                seen += 1
                if most is not None and seen >= most:
                    return

        match nudge.what:
            case "stays":
                await read(None)
            case "breaks off":
                await read(nudge.records)
                del watch
            case "is cut":
                reading = asyncio.create_task(read(None))
                await asyncio.sleep(nudge.records / 5)
                await _turns(nudge.records)
                await _cut(reading)
                await watch.aclose()  # type: ignore[attr-defined]
            case "leaves":
                await read(nudge.records)
                await watch.aclose()  # type: ignore[attr-defined]

    # ── what is left ──

    async def _nothing_is_left(self) -> None:
        gc.collect()  # watchers that were only dropped
        await asyncio.sleep(SETTLE_SECS)
        left = asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]
        deaf = self.source.deaf + self.model.deaf
        assert len(left) == deaf, f"{len(left)} tasks for {deaf} that do not listen: {left}"
        self.source.let_go()
        self.model.let_go()
        if left:
            await asyncio.wait(left, timeout=SETTLE_SECS)
        await asyncio.to_thread(_join_tools, self.source, self.others)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        assert self.source.abandoned_threads == 0
        parts = self.bench.service.parts
        assert parts.feed._listeners == {}
        assert not (await self.store.summary(self.task_id)).held
        assert await self.bench.service.state(self.task_id)
        if isinstance(self.store, TimelyStore):
            assert self.store._driven == {}
            assert self.store._watchers._readers == self.store._watchers._listeners == {}
            assert self.store._watchers._looking is None
            assert self.store._writer._torn == {}
            assert not self.store._writer._jobs


def _join_tools(source: Misbehaving, others: set[threading.Thread]) -> None:
    """Wait for the threads of tools to end."""
    source._threads.release()
    for thread in set(threading.enumerate()) - others:
        if thread.name.startswith("replan-tool"):
            thread.join(10)
            assert not thread.is_alive(), "a tool's thread is left"


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _cut(task: asyncio.Task[Any]) -> None:
    """Cancel a task and see it to its end."""
    task.cancel()
    await asyncio.wait({task}, timeout=SETTLE_SECS)
    assert task.done(), "it does not let itself be cancelled"
    if not task.cancelled():
        task.result()
