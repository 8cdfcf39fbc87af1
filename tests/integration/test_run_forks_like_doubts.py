"""Calls over sessions that several tasks of a family have in doubt: each is looked for by its own key, and the effect is had once."""

from __future__ import annotations

import asyncio
from itertools import count, permutations
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step
from test_run_forks import at_of, forked
from test_run_recovery import READS

from replan import RetryLater
from replan.core.events.stored import dump
from replan.core.state.task import like_tries, of_likes
from replan.core.tools.rules import ToolRule, ToolRules
from replan.core.types import Verifier
from replan.testing import virtual_time

TEXT = {"type": "string"}
SEAT: dict[str, Any] = {
    "type": "object",
    "properties": {"session": TEXT, "name": TEXT},
    "required": ["session", "name"],
}
ASKED = {"type": "object", "properties": {"key": TEXT}}
BOOKS = plan(
    step("in", "login"),
    step("a", "seat", "in", parameters={"session": "${in.output.session}", "name": "s1"}),
)


class Hall:
    """Seats that take their time: a call is begun, and takes effect `SECS` later."""

    SECS = 60.0

    def __init__(self, happened: str = "output[?key == call.key]", asks: Any = None) -> None:
        self.sessions = count(1)
        self.booked: list[str] = []
        self.keys: list[str] = []
        self.busy = 0
        self.happened, self.asks = happened, asks or {}
        self.hidden = ""

    def _seat(self, parameters: Any) -> str:
        if self.busy:
            self.busy -= 1
            raise RetryLater("busy", after_secs=100)
        self.booked.append(parameters["name"])
        return f"seat {parameters['name']}"

    def _seen(self, asked: Any) -> Any:
        if self.hidden and asked.get("key") == self.hidden:
            raise ValueError("not now")
        return [{"key": key, "name": "s1"} for key in self.keys]

    async def bench(self) -> Bench:
        tools: dict[str, Any] = {
            "login": FakeTool(
                output=lambda _: {"session": f"session-{next(self.sessions)}"}, effect="repeatable"
            ),
            "seat": FakeTool(output=self._seat, delay_secs=self.SECS, effect="once", parameters=SEAT),
            "seen": FakeTool(output=self._seen, parameters=ASKED, **READS),
            "place": FakeTool(
                output=self._seat, delay_secs=self.SECS, effect="once", parameters=SEAT,
                spec={"substitutes": ["seat"]},
            ),
        }  # fmt: skip
        looks = ToolRule(
            verify=Verifier(tool="seen", happened=self.happened, parameters=self.asks, after_secs=5)
        )
        return await bench(tools, rules=ToolRules(rules=(("seat", looks), ("place", looks))))


async def driven_for(made: Bench, task_id: str, secs: float) -> Ran:
    """The process that drives it ends after so long."""
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.sleep(secs)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    return await made.ran(task_id)


def keys_of(made: Bench) -> list[str]:
    return [one.key for one in made.source.calls if one.tool_id == "seat"]


@pytest.mark.parametrize("had", [False, True], ids=["not had", "had"])
@pytest.mark.parametrize("order", [*permutations(["t1", "f1", "f2"])], ids=lambda order: "-".join(order))
def test_three_of_a_family_over_sessions_have_it_once(order: tuple[str, ...], *, had: bool) -> None:
    """The first is killed in its call, a fork of it too, once the look at that one's had shown nothing; then all go on."""

    async def main() -> tuple[Hall, list[Ran]]:
        hall = Hall()
        made = await hall.bench()
        tasks = {"t1": await made.submit(BOOKS)}
        cut = await driven_for(made, tasks["t1"], 4)
        before = at_of(cut, "plan_generated")
        tasks["f1"] = await forked(made, tasks["t1"], at=before)
        await driven_for(made, tasks["f1"], 20)
        _, second = keys_of(made)
        if had:
            hall.booked.append("s1")
            hall.keys.append(second)  # it has gone through after all
        tasks["f2"] = await forked(made, tasks["t1"], at=before)
        return hall, [(await made.drive(tasks[name])).check() for name in order]

    hall, ran = virtual_time(main())
    for one in ran:
        assert one.result.is_success, one.result.reason
    assert hall.booked == ["s1"]


def test_the_settled_call_is_the_one_that_was_found() -> None:
    async def main() -> tuple[str, Ran]:
        hall = Hall()
        made = await hall.bench()
        first = await made.submit(BOOKS)
        before = at_of(await driven_for(made, first, 4), "plan_generated")
        await driven_for(made, await forked(made, first, at=before), 20)
        _, second = keys_of(made)
        hall.keys.append(second)
        return second, (await made.drive(await forked(made, first, at=before))).check()

    second, last = virtual_time(main())
    (settled,) = last.events("outcome_settled")
    assert settled.happened
    assert settled.of_call == second
    assert last.state.has_had(second)


@pytest.mark.parametrize("found", [False, True])
def test_a_look_that_tells_no_two_of_them_apart_says_only_that_there_is_none(*, found: bool) -> None:
    async def main() -> tuple[Hall, Ran]:
        hall = Hall("output[?name == call.parameters.name]")
        made = await hall.bench()
        first = await made.submit(BOOKS)
        before = at_of(await driven_for(made, first, 4), "plan_generated")
        await driven_for(made, await forked(made, first, at=before), 20)
        if found:
            hall.booked.append("s1")
            hall.keys.append(keys_of(made)[-1])
        return hall, (await made.drive(await forked(made, first, at=before))).check()

    hall, last = virtual_time(main())
    assert hall.booked == ["s1"]
    if found:
        assert last.result.failure is not None
        assert last.result.failure.kind == "outcome_unknown"
    else:
        assert last.result.is_success, last.result.reason


def test_a_look_that_fails_for_one_of_them_each_time_comes_to_its_end() -> None:
    async def main() -> tuple[Hall, Ran]:
        hall = Hall(asks={"key": "${call.key}"})
        made = await hall.bench()
        first = await made.submit(BOOKS)
        before = at_of(await driven_for(made, first, 4), "plan_generated")
        await driven_for(made, await forked(made, first, at=before), 20)
        hall.hidden = keys_of(made)[0]
        return hall, (await made.drive(await forked(made, first, at=before))).check()

    hall, last = virtual_time(main())
    assert last.result.failure is not None
    assert last.result.failure.kind == "outcome_unknown"
    assert not hall.booked


def test_what_was_tried_once_more_there_since_is_looked_for_once_more() -> None:
    """A fork is told that the first task's call did not happen, and waits to be let in. The first makes it meanwhile, and is killed: what was
    told was of another try."""

    async def main() -> tuple[Hall, Ran]:
        hall = Hall()
        made = await hall.bench()
        first = await made.submit(BOOKS)
        before = at_of(await driven_for(made, first, 4), "plan_generated")
        hall.busy = 1
        fork = await forked(made, first, at=before)
        cut = await driven_for(made, fork, 100)
        assert [one.happened for one in cut.events("outcome_settled")] == [False]
        assert [one.retry_in_secs for one in cut.events("call_failed")][-1] == 100
        await driven_for(made, first, 30)
        assert len(set(keys_of(made))) == 2
        assert len(keys_of(made)) == 3
        hall.booked.append("s1")
        hall.keys.append(keys_of(made)[-1])
        return hall, (await made.drive(fork)).check()

    hall, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert hall.booked == ["s1"]


def _by(tool: str) -> Any:
    return plan(
        step("in", "login"),
        step("a", tool, "in", parameters={"session": "${in.output.session}", "name": "s1"}),
    )


@pytest.mark.parametrize(
    "others",
    [(None,), (None, None), ("place",), ("seat", "place"), ("place", "place", None)],
    ids=lambda others: "-".join(str(one or "as-it-is") for one in others),
)
@pytest.mark.parametrize("cut", [1, 2])
def test_one_of_those_that_go_on_at_once_makes_what_did_not_happen(
    others: tuple[str | None, ...], cut: int
) -> None:
    """The first is killed in its call, also in its second; each that waits for what became of it is no doubt of another's."""

    async def main() -> tuple[Hall, list[Ran], int]:
        hall = Hall()
        made = await hall.bench()
        first = await made.submit(BOOKS)
        before = at_of(await driven_for(made, first, 4), "plan_generated")
        tasks = [
            await forked(made, first, at=before, **({"plan": _by(one)} if one else {})) for one in others
        ]
        going = [asyncio.create_task(made.drive(one)) for one in tasks]
        for _ in range(1, cut):
            await driven_for(made, first, 20)
        last = await asyncio.gather(made.drive(first), *going)
        return hall, [one.check() for one in last], len(made.source.calls)

    hall, ran, calls = virtual_time(main())
    assert any(one.result.is_success for one in ran)
    for one in ran:  # what a substitute has done is asked about
        assert one.result.is_success or ("place" in others and "has done this" in one.result.reason)
        assert len(one.events("outcome_unknown")) <= cut + 1
    assert hall.booked == ["s1"]
    assert calls < 60


def test_a_doubt_of_another_is_none_of_a_call_that_only_waits_for_it() -> None:
    """The fork waits for what became of the first task's call when it ends; a further one asks what became of that one alone, by its key."""

    async def main() -> tuple[list[str], Ran]:
        hall = Hall()
        made = await hall.bench()
        first = await made.submit(BOOKS)
        before = at_of(await driven_for(made, first, 4), "plan_generated")
        waits = await driven_for(made, await forked(made, first, at=before), 3)
        assert [one.status for one in waits.state.in_doubt.values()] == ["unknown"]
        last = await driven_for(made, await forked(made, first, at=before), 3)
        return keys_of(made), last

    (key,), last = virtual_time(main())
    (doubt,) = last.events("outcome_unknown")
    assert list(like_tries(doubt.of_try)) == [key]


def test_the_name_of_what_is_in_doubt_elsewhere_says_which_try_of_each() -> None:
    assert like_tries(of_likes({"b.1": 2, "a.1": 1})) == {"a.1": 1, "b.1": 2}
    assert like_tries("like:a.1,b.2") == {"a.1": 0, "b.2": 0}, "as an older release wrote it"
    assert like_tries("task_1#2") == {}


def test_what_is_not_said_is_not_stored() -> None:
    async def main() -> Ran:
        hall = Hall()
        made = await hall.bench()
        task_id = await made.submit(BOOKS)
        await driven_for(made, task_id, 4)
        return await made.drive(task_id)

    ran = virtual_time(main())
    stored = [dump(one) for kind in ("outcome_unknown", "outcome_settled") for one in ran.events(kind)]
    assert len(stored) == 2
    assert not any("taken_on" in text or "of_call" in text for text in stored)
