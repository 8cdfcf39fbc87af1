"""Honest tasks of several parts, at random: whoever is to be paid is paid once, the task ends as a success, and soon.

The planner plans what is left, in whatever form: values, readings, lists, sessions. Readings fail and are mended by recovery, in another plan or in
other words; sessions expire. It keeps to what it is told: a step that takes the place of one that has not run says so.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_recovery import overall, reflection
from test_run_very_effects import fields

from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.errors import ToolCallError
from replan.testing import MemoryStore, virtual_time

NAMES = ["Ann", "Bob", "Cid", "Dan", "Eve", "Fay"]
VOLATILE: dict[str, Any] = {"effect": "reads", "spec": {"volatile": True}}
MOST_REQUESTS = 30
GIVE_UP = reflection("trigger_overall_reflection", {"summary": "not here"}, "tool_error")


def at_once(asked: Coroutine[Any, Any, Any]) -> Any:
    """What a store in memory answers, which waits for nothing."""
    try:
        asked.send(None)
    except StopIteration as answered:
        return answered.value
    raise AssertionError("it waits")


class Honest:
    """A world, with a ledger of what was really done, and a model that means well."""

    def __init__(self, seed: int, *, restates: float = 0.0) -> None:
        self.rng = rng = random.Random(seed)
        self.restates = restates
        self.wanted = rng.sample(NAMES, rng.randint(2, 5))
        self.paid: Counter[str] = Counter()
        self.told = 0
        self.unread = {name: rng.choice([1, 1, 2, 9]) for name in NAMES if rng.random() < 0.4}
        self.locked = rng.choice([0, 0, 0, 1, 2])
        self.expired = rng.choice([[], [], ["s1"], ["s1", "s2"]])
        self.sessions = self.ids = 0
        self.full_names: set[str] = set()
        self.whom: dict[str, list[str]] = {}
        self.pending = self.anew = False
        self.store = MemoryStore()
        self.task = ""

    # ── the world ──

    def who(self, parameters: Any) -> Any:
        of = parameters["of"]
        if not of.endswith(" S.") and self.unread.get(of, 0) > 0:
            self.unread[of] -= 1
            raise ToolCallError(f"of: there is no {of!r}; did you mean '{of} S.'?", kind="tool")
        return {"name": of.removesuffix(" S.")}

    def names(self, parameters: Any) -> Any:
        of = parameters["of"]
        if not of.endswith("(all)") and self.locked > 0:
            self.locked -= 1
            raise ToolCallError(f"of: say '(all)' behind {of!r}", kind="tool")
        return {"names": [one.strip() for one in of.split(" (")[0].split(",")]}

    def pay(self, parameters: Any) -> Any:
        if parameters.get("session") in self.expired:
            raise ToolCallError("the session has expired, get a new one", kind="tool")
        self.paid[parameters["to"]] += 1
        return {"id": self.paid.total()}

    def tell(self, _: Any) -> Any:
        self.told += 1
        return "told"

    def token(self, _: Any) -> Any:
        self.sessions += 1
        return {"session": f"s{self.sessions}"}

    @property
    def remaining(self) -> list[str]:
        return [name for name in self.wanted if not self.paid[name]]

    @property
    def state(self) -> State:
        return fold(at_once(self.store.read(self.task)))

    # ── the planner ──

    def _id(self, kind: str) -> str:
        self.ids += 1
        return f"{kind}{self.ids}"

    def _reading(self, name: str, *needs: str) -> Any:
        full = name in self.full_names and self.rng.random() < 0.7
        return step(self._id("v"), "who", *needs, parameters={"of": f"{name} S." if full else name})

    def _paying(self, to: list[str], needs: list[str]) -> tuple[list[Any], str]:
        rng, name = self.rng, self._id("p")
        self.whom[name] = to
        one = ["value", "reading", "reading", "session", "beside", "list"]
        how = rng.choice(one if len(to) == 1 else ["list", "readings", "readings", "names", "names"])
        first: list[Any] = []
        pays: dict[str, Any] = {"to": to[0]}
        more: dict[str, Any] = {}
        match how:
            case "reading":
                first = [self._reading(to[0], *(needs if rng.random() < 0.3 else ()))]
                pays = {"to": f"${{{first[0]['step_id']}.output.name}}"}
            case "beside":
                first = [self._reading(rng.choice(NAMES))]
            case "session":
                first = [step(self._id("t"), "token")]
                pays["session"] = f"${{{first[0]['step_id']}.output.session}}"
            case "list":
                pays, more = {"to": "${item}"}, {"for_each": to}
            case "readings":
                first = [self._reading(who) for who in to]
                items = [f"${{{one['step_id']}.output.name}}" for one in first]
                pays, more = {"to": "${item}"}, {"for_each": items}
            case "names":
                words = ", ".join(to) + (" (all)" if rng.random() < 0.3 else "")
                first = [step(self._id("l"), "names", parameters={"of": words})]
                pays = {"to": "${item}"}
                more = {"for_each": f"${{{first[0]['step_id']}.output.names}}"}
        after = [one["step_id"] for one in first]
        return [*first, step(name, "pay", *after, *needs, parameters=pays, **more)], name

    def plan(self, request: Any) -> Any:
        rng, rem = self.rng, self.remaining
        asked_first = len(request.turns) == 1
        if asked_first:
            self.anew, self.pending = self.pending, False
        rng.shuffle(rem)
        now = rem if not rem or (not asked_first and rng.random() < 0.5) else rem[: rng.randint(1, len(rem))]
        steps, left, last = list[Any](), list(now), list[str]()
        done = [name for name in self.wanted if self.paid[name]]
        if asked_first and done and rng.random() < self.restates:
            read, name = self._reading(rng.choice(done)), self._id("p")
            to = f"${{{read['step_id']}.output.name}}"
            steps += [read, step(name, "pay", read["step_id"], parameters={"to": to})]
            last = [name] if rng.random() < 0.5 else []
        while left:
            count = rng.randint(1, len(left))
            made, name = self._paying(left[:count], last if rng.random() < 0.5 else [])
            left, steps = left[count:], [*steps, *made]
            last = [name] if rng.random() < 0.5 else last
        whole = set(now) == set(rem)
        if whole and not self.told:
            steps.append(step(self._id("m"), "tell", parameters={"to": "boss"}))
        if not steps and self.anew:
            steps = [step(self._id("l"), "names", parameters={"of": f"check {self.ids} (all)"})]
        self._say_what_stands_for_what(steps)
        return {**plan(*steps), "more": "" if whole else "pay the rest"}

    def _say_what_stands_for_what(self, steps: list[Any]) -> None:
        before = {one.step.step_id: one.status for one in self.state.every_step()}
        owed = [name for name in self.whom if before.get(name) in ("failed", "skipped")]
        for one in steps:
            mine = set(self.whom.get(one["step_id"], ()))
            if stands := [name for name in owed if mine & set(self.whom[name])]:
                one["instead_of"] = stands

    # ── recovery ──

    def reflect_on_step(self, request: Any) -> Any:
        text = request.turns[0].text
        asked = re.findall(r"did you mean '(\w+) S\.'|say '\(all\)' behind '([^']*)'", text)
        name, words = asked[0] if asked else ("", "")
        self.full_names.update(filter(None, [name]))
        if asked and self.rng.random() < 0.5:
            return reflection("retry_with_params", {"of": f"{name} S." if name else f"{words} (all)"})
        return GIVE_UP

    def reflect(self, _: Any) -> Any:
        steps = self.state.steps
        bad = [name for name, one in steps.items() if one.status in ("failed", "skipped") and not one.moot]
        failed = [name for name in bad if steps[name].status == "failed"]
        strategy: dict[str, Any] = {"type": "full_replan", "reason": "it helps"}
        if not self.remaining and self.told:
            if not bad:
                return overall(False)
            if set(bad) != set(steps):
                strategy = {"type": "skip_steps", "step_ids": bad, "reason": "everybody is paid by others"}
        elif failed and self.rng.random() < 0.3:
            strategy = {"type": "replan_from_step", "step_id": failed[0], "reason": "it helps"}
        self.pending = strategy["type"] != "skip_steps"
        return overall(True, replanning_strategy=strategy)

    def run(self) -> Ran:
        tools = {
            "pay": FakeTool(output=self.pay, effect="once", parameters=fields("to", "session")),
            "who": FakeTool(output=self.who, parameters=fields("of"), **VOLATILE),
            "names": FakeTool(output=self.names, parameters=fields("of"), **VOLATILE),
            "token": FakeTool(output=self.token, **VOLATILE),
            "tell": FakeTool(output=self.tell, effect="once", parameters=fields("to")),
        }
        answers = {
            "execution_plan": self.plan,
            "step_reflection": self.reflect_on_step,
            "overall_reflection": self.reflect,
        }

        async def main() -> Ran:
            made = await bench(tools, answers, store=self.store)
            self.task = await made.submit(evaluation="steps", text="pay " + ", ".join(self.wanted))
            return (await made.drive(self.task)).check()

        return virtual_time(main())


def all_end_well(seeds: range, most: int = 0) -> None:
    """`most`: so many may end with a word that is missing, since the planner has planned once more what was kept and yet to run."""
    without: list[object] = []
    for seed in seeds:
        task = Honest(seed)
        ran = task.run()
        without += [] if ran.result.is_success else [(seed, ran.result.reason)]
        assert task.paid == Counter(task.wanted), seed
        assert task.told == 1, seed
        assert len(ran.model.requests) <= MOST_REQUESTS, seed
    assert len(without) <= most, without


def none_is_paid_twice(seeds: range) -> None:
    """The planner plans again, by a reading, to pay whom it does not know to be paid: then a word may be missing in the end."""
    ended: Counter[bool] = Counter()
    for seed in seeds:
        task = Honest(seed, restates=0.4)
        ran = task.run()
        assert max(task.paid.values()) == 1, seed
        assert task.told <= 1, seed
        assert not ran.result.is_success or not task.remaining, seed
        assert len(ran.model.requests) <= MOST_REQUESTS, seed
        ended[ran.result.is_success] += 1
    assert ended[True] >= 0.9 * len(seeds)


def test_honest_tasks_of_several_parts_end_as_a_success() -> None:
    all_end_well(range(50))


def test_whatever_is_planned_again_by_a_reading_is_done_once() -> None:
    none_is_paid_twice(range(30))


@pytest.mark.prove
@pytest.mark.parametrize("at", range(50, 1_050, 250))
def test_proof_of_both_by_many_more(at: int) -> None:
    all_end_well(range(at, at + 250), most=4)
    none_is_paid_twice(range(at, at + 250))
