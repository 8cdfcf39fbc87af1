"""Whatever people do to a task and its forks, at whatever moment: no effect twice, and every log folds to what its driver had."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from run_tasks import Bench, FakeTool, bench, plan, step

from replan.core.events import TERMINAL, CallStarted
from replan.core.state.fold import fold
from replan.errors import InputError, TaskEnded, TaskHeld
from replan.ports import ToolCall
from replan.run.service.forking import Forking
from replan.testing import FakeSource, MemoryStore, virtual_time

NAMES = ("Ann", "Bob", "Cy", "Di")


class World:
    """What the calls have really done; some fail cleanly the first times."""

    def __init__(self, rng: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._rng = random.Random(rng.random())
        self._fails = {name: rng.randint(1, 2) for name in NAMES if rng.random() < 0.3}

    async def pay(self, parameters: dict[str, Any]) -> str:
        """Paid at once or in a second: who is stopped meanwhile may have paid or not."""
        late = self._rng.random() < 0.5
        if late:
            await asyncio.sleep(1)
        try:
            return self._paid(parameters["to"])
        finally:
            if not late:
                await asyncio.sleep(1)

    def _paid(self, name: str) -> str:
        if self._fails.get(name, 0) > 0:
            self._fails[name] -= 1
            raise ValueError("not taken")
        self.done[name] += 1
        return f"paid {name} {self.done[name]}"


class Payments(FakeSource):
    """Tools of that world."""

    def __init__(self, world: World) -> None:
        to = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
        pay = FakeTool(effect="once", parameters=to)
        super().__init__({"pay": pay, "read": FakeTool(output="read", delay_secs=1, effect="reads")})
        self._world = world

    async def call(self, call: ToolCall) -> Any:
        return await (self._world.pay(call.parameters) if call.tool_id == "pay" else super().call(call))


def some_plan(rng: random.Random) -> dict[str, Any]:
    """Payments, each to one person, with readings between, in any order."""
    steps: list[dict[str, Any]] = []
    for at, name in enumerate(rng.sample(NAMES, rng.randint(1, len(NAMES)))):
        needs = rng.sample([one["step_id"] for one in steps], min(len(steps), rng.randint(0, 1)))
        if rng.random() < 0.4:
            steps.append(step(f"r{at}", "read", *needs))
            needs = [f"r{at}"]
        steps.append(step(f"p{at}", "pay", *needs, parameters={"to": name}))
    return plan(*steps)


class Play:
    """People and drivers at one store, on virtual time."""

    def __init__(self, rng: random.Random, made: Bench) -> None:
        self._rng, self._made, self.tasks = rng, made, list[str]()
        self._driving: dict[str, asyncio.Task[Any]] = {}

    async def begin(self) -> None:
        self.tasks.append(await self._made.submit(some_plan(self._rng), interactive=True))
        self.drive(self.tasks[0])

    def drive(self, task_id: str) -> None:
        known = self._driving.get(task_id)
        if known is None or known.done():
            self._driving[task_id] = asyncio.create_task(self._drive(task_id))

    async def _drive(self, task_id: str) -> None:
        with contextlib.suppress(TaskHeld):
            left = await self._made.service.drive(task_id)
            records = await self._made.store.read(task_id)
            if not all(one.event.signal for one in records[left.last_seq :]):
                return  # another drive has gone on with it
            again = fold(records)
            assert again.steps == left.steps
            assert again.status == left.status
            if not left.ended:  # else somebody spoke as the end was on its way
                assert (again.waiting, again.pause, again.wishes) == (left.waiting, left.pause, left.wishes)
            assert again.took_effect == left.took_effect

    async def act(self) -> None:
        """One thing that a person does, or a process that dies."""
        rng, service = self._rng, self._made.service
        task_id = rng.choice(self.tasks)
        act = rng.choice(
            [
                "pause",
                "pause now",
                "resume",
                "hint",
                "retry",
                "cancel",
                "fork",
                "fork",
                "kill",
                "drive",
                "answer",
            ]
        )
        with contextlib.suppress(InputError, TaskEnded):
            match act:
                case "pause":
                    await service.pause(task_id)
                case "pause now":
                    await service.pause(task_id, now=True)
                case "resume":
                    await service.unpause(task_id)
                    self.drive(task_id)
                case "hint":
                    await service.hint(task_id, "be quick")
                case "retry":
                    state = await service.state(task_id)
                    failed = [name for name, one in state.steps.items() if one.status == "failed"]
                    await service.retry_step(task_id, rng.choice(failed or ["none"]))
                    self.drive(task_id)
                case "cancel" if rng.random() < 0.3:
                    await service.cancel(task_id)
                case "fork" if len(self.tasks) < 6:
                    last = (await self._made.store.summary(task_id)).last_seq
                    at = rng.choice([None, rng.randint(1, last)])
                    other = some_plan(rng) if rng.random() < 0.4 else None
                    fork, _ = await service.fork(task_id, Forking(at=at, plan=other))
                    self.tasks.append(fork)
                    self.drive(fork)
                case "kill":
                    if (driving := self._driving.get(task_id)) is not None:
                        driving.cancel()
                        await asyncio.wait({driving})
                        self.drive(task_id)
                case "drive":
                    self.drive(task_id)
                case "answer":
                    await self._say_what_is_true(task_id)

    async def _say_what_is_true(self, task_id: str) -> None:
        """What a person says of a doubt who has looked."""
        state = await self._made.service.state(task_id)
        for question in state.recovery.open_questions() if state.recovery is not None else ():
            call = state.in_doubt.get(question.call_key or "")
            if call is not None:
                done = self.world.done[call.parameters["to"]]
                await self._made.service.answer(
                    task_id, "yes" if done else "no", question.question_id, output="seen" if done else None
                )
                self.drive(task_id)

    world: World

    async def to_the_end(self) -> None:
        """Everybody is resumed and answered until nothing moves any more."""
        for _ in range(40):
            await asyncio.wait(set(self._driving.values()))
            for driving in self._driving.values():
                if not driving.cancelled():
                    driving.result()
            left = [one for one in self.tasks if not (await self._made.service.state(one)).ended]
            if not left:
                return
            for task_id in left:
                with contextlib.suppress(InputError, TaskEnded):
                    await self._made.service.unpause(task_id)
                await self._say_what_is_true(task_id)
                self.drive(task_id)
        raise AssertionError(f"still going on: {left}")


async def played(seed: int) -> tuple[World, Play, Bench]:
    rng = random.Random(seed)
    world = World(rng)
    made = await bench(Payments(world), store=MemoryStore())
    play = Play(rng, made)
    play.world = world
    await play.begin()
    for _ in range(rng.randint(2, 14)):
        await asyncio.sleep(rng.choice([0, 0.3, 1, 1.7]))
        await play.act()
    await play.to_the_end()
    return world, play, made


def check(seed: int) -> None:
    async def main() -> None:
        world, play, made = await played(seed)
        assert all(count == 1 for count in world.done.values()), world.done
        for task_id in play.tasks:
            records = await made.store.read(task_id)
            assert [one.seq for one in records] == list(range(1, len(records) + 1))
            assert sum(isinstance(one.event, TERMINAL) for one in records) == 1
            for call in fold(records).took_effect.values():
                assert world.done[call.parameters["to"]] == 1, "what is taken for done is done"
            keys: dict[str, str] = {}
            for one in records:
                if isinstance(one.event, CallStarted) and one.event.tool_id == "pay":
                    name = one.event.parameters["to"]
                    assert keys.setdefault(name, one.event.call_key) == one.event.call_key

    virtual_time(main())


@given(st.integers(0, 10**9))
@settings(max_examples=25)
@example(90)
@example(167)
@example(494)
@example(612)
@example(994)
def test_whatever_people_do_no_effect_happens_twice(seed: int) -> None:
    check(seed)


@pytest.mark.prove
@given(st.integers(0, 10**9))
@settings(max_examples=2_000)
def test_whatever_people_do_no_effect_happens_twice_for_long(seed: int) -> None:
    check(seed)
