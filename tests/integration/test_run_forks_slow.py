"""Families of forks with plans, beginnings, failures and kills by chance, over stores that answer late: nothing is had more often than one of
their plans is owed it, and whoever has succeeded has all that its plan is owed."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_forks import at_of, forked
from test_run_forks_alike import takes
from test_run_recovery import READS, overall, reflection

from replan.core.limits.policy import Budget, Policy
from replan.ports import ModelRequest
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore
from replan.testing import MemoryStore, virtual_time
from slow_stores import Delayed

PATIENT = Budget(task_timeout_secs=20_000)
"""Beyond what a slow store takes: whoever has not ended by then waits for ever."""
PEOPLE = ["ann", "bob", "cyd"]
Owed = Counter[tuple[str, str]]
"""How often each is to be had: by what of it (two tools that do the same are one) and to whom."""


class World:
    """Three ways to pay: two of them do the same, and the third goes over a session. Now and then one is refused, or its answer is lost."""

    def __init__(self, chance: Random, secs: float) -> None:
        self.chance, self.secs = chance, secs
        self.had: Owed = Counter()
        self.sessions = 0
        self.refuses, self.loses = chance.choice([0.0, 0.3]), chance.choice([0.0, 0.0, 0.15])

    def login(self, _: Any) -> Any:
        self.sessions += 1
        return {"session": f"tok-{self.sessions}"}

    def _paid(self, way: str, to: str) -> Any:
        if self.chance.random() < self.refuses:
            raise ValueError("the desk is closed")
        self.had[way, to] += 1
        if self.chance.random() < self.loses:
            raise TimeoutError("no answer")
        return {"id": self.had.total()}

    def tools(self) -> dict[str, Any]:
        send, wire = takes("to"), takes("recipient")
        return {
            "login": FakeTool(output=self.login, spec={"volatile": True}, **READS),
            "send": FakeTool(
                output=lambda p: self._paid("send", p["to"]),
                delay_secs=self.secs,
                spec={"substitutes": ["wire"]},
                **send,
            ),
            "wire": FakeTool(
                output=lambda p: self._paid("send", p["recipient"]), delay_secs=self.secs, **wire
            ),
            "pay": FakeTool(
                output=lambda p: self._paid("pay", p["to"]), delay_secs=self.secs, **takes("session", "to")
            ),
        }


class Planned(NamedTuple):
    """A plan, and what it is owed."""

    steps: dict[str, Any]
    owed: Owed


def planned(chance: Random) -> Planned:
    """Some people paid in some ways, one by one or by a list, in which one may stand twice."""
    steps, owed, before = [step("l", "login")], Counter[tuple[str, str]](), "l"
    for way in chance.sample(["send", "pay"], chance.choice([1, 2])):
        people = chance.sample(PEOPLE, chance.randint(1, len(PEOPLE)))
        tool = chance.choice(["send", "wire"]) if way == "send" else "pay"
        if tool == "pay" or chance.random() < 0.3:
            people += chance.sample(people, chance.randint(0, 1))  # twice
            tool = "send" if tool == "wire" else tool
        owed.update((way, to) for to in people)
        name = "recipient" if tool == "wire" else "to"
        session = {"session": "${l.output.session}"} if tool == "pay" else {}
        if chance.random() < 0.5:
            more = {"for_each": people, "parameters": {name: "${item}", **session}}
            steps.append(step(way, tool, before, **more))
            continue
        after = chance.random() < 0.5
        for n, to in enumerate(people):
            again = {"repeat": True} if people.count(to) > 1 else {}
            steps.append(step(f"{way}{n}", tool, before, parameters={name: to, **session}, **again))
            before = f"{way}{n}" if after else before
    return Planned(plan(*steps), owed)


def mended(chance: Random) -> Callable[[ModelRequest], dict[str, Any]]:
    """Now and then what was refused is made by the other tool, or in the same way once more."""

    def answer(request: ModelRequest) -> dict[str, Any]:
        asked = " ".join(turn.text for turn in request.turns)
        to = re.search(r'"(?:to|recipient)": ?"(\w+)"', asked)
        if to is None or '"session"' in asked or chance.random() < 0.3:
            return reflection("abort", {"reason": "no way"})
        tool, name = chance.choice([("send", "to"), ("wire", "recipient")])
        return reflection(
            "retry_with_tool", {"tool_id": tool, "parameters": {name: to.group(1)}}, "tool_error"
        )

    return answer


async def family(made: Bench, world: World, chance: Random, *, mends: bool) -> None:
    """Some forks of one task at about the same time, some of them killed and gone on with."""
    task_id = await made.submit(plan(step("l", "login")))
    await made.drive(task_id)
    at = at_of(await made.ran(task_id), "plan_generated") - 1
    plans = [planned(chance) for _ in range(chance.randint(2, 4))]
    plans += [plans[0]] * chance.randint(0, 1)
    policy = Policy(budget=PATIENT, **({} if mends else {"evaluation": "steps"}))
    names = [await forked(made, task_id, at=at, plan=one.steps, policy=policy) for one in plans]

    async def drive(name: str) -> None:
        await asyncio.sleep(chance.choice([0.0, chance.random() * 3 * world.secs]))
        if chance.random() < 0.3:
            driving = asyncio.create_task(made.service.drive(name))
            await asyncio.sleep(chance.random() * 4 * world.secs)
            driving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await driving
        await made.service.drive(name)

    await asyncio.gather(*map(drive, names))
    most = Owed()
    for one in plans:
        most |= one.owed
    assert world.had <= most, [one.steps for one in plans]
    ran = [(await made.ran(name)).check() for name in names]
    for one, wanted in zip(ran, plans, strict=True):
        assert one.result.status in ("succeeded", "failed"), "nobody waits for ever"
        if one.result.is_success and "failed" not in one.statuses().values():
            assert wanted.owed <= world.had
    assert not again_with_one_key(ran)


def again_with_one_key(ran: list[Ran]) -> set[str]:
    """Keys of calls that succeeded more than once."""
    ended = (one for of in ran for one in of.events("call_completed"))
    keys = Counter(
        one.call_key for one in ended if one.tool_id != "login" and not (one.reused or one.of_task)
    )
    return {key for key, times in keys.items() if times > 1}


async def at_once(seed: str, store: Any, secs: float, most_secs: float, *, mends: bool = False) -> None:
    chance = Random(seed)
    world = World(chance, secs)
    replies = {"evaluation": verdict(), "overall_reflection": overall(), "step_reflection": mended(chance)}
    late = Delayed(store, Random(f"{seed} store"), most_secs)
    await family(await bench(world.tools(), replies, store=late), world, chance, mends=mends)


@pytest.mark.parametrize("mends", [False, True], ids=["as planned", "mended"])
@pytest.mark.parametrize("seed", range(12))
def test_families_of_forks_over_a_store_that_answers_late(seed: int, *, mends: bool) -> None:
    virtual_time(at_once(f"late {seed}", MemoryStore(), 5, 0.5, mends=mends))


@pytest.mark.prove
@pytest.mark.parametrize("mends", [False, True], ids=["as planned", "mended"])
@pytest.mark.parametrize("first", range(0, 1_000, 100))
def test_many_families_of_forks_over_a_store_that_answers_late(first: int, *, mends: bool) -> None:
    for seed in range(first, first + 100):
        virtual_time(at_once(f"many {seed}", MemoryStore(), 5, 0.5 if seed % 2 else 20, mends=mends))


@pytest.mark.prove
@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_families_of_forks_over_a_real_store_that_answers_late(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for seed in range(30):
        if kind == "sqlite":
            store: Any = SqliteStore(tmp_path / f"{seed}.db")
        else:
            store = PostgresStore(request.getfixturevalue("new_postgres_schema")())
        try:
            await at_once(f"real {seed}", store, 0.05, 0.02)
        finally:
            await store.aclose()
