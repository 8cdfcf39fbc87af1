"""What others of a family have done is found by what it may be about: the answers are those of looking at everything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
from histories import OPENED, begun, done, planned, records
from hypothesis import given, settings
from hypothesis import strategies as st

from counting import MORE, calls_in
from replan.core import events as e
from replan.core.again.foreign import Foreign, Writers
from replan.core.again.had import Had, are_of_two, effects_of, is_of_one_thing, may_make, subject_of
from replan.core.again.in_family import Family
from replan.core.calls.site import ONLY
from replan.core.events import AnyEvent
from replan.core.ids import base_of
from replan.core.plan.index import references_of
from replan.core.state.fold import fold
from replan.core.state.ledger import same_thing
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import Fault, Step, ToolSpec


def spec(tool_id: str, effect: Any, *names: str) -> ToolSpec:
    return ToolSpec(
        id=tool_id, effect=effect, parameters={"type": "object", "properties": {name: {} for name in names}}
    )


TOOLS = {
    one.id: one
    for one in (
        spec("pay", "once", "to", "amount"),
        spec("close", "once", "to"),
        spec("refund", "once", "of", "note"),
        spec("ring", "once"),
        spec("put", "repeatable", "at", "text"),
        spec("mail", "once", "session", "to", "amount"),
        spec("set", "repeatable", "token", "at", "text"),
        spec("leave", "once", "session"),
    )
}


@dataclass
class Plain:
    """The same, by looking at everything each time."""

    mine: State
    others: Mapping[str, State]

    def made_by(self, key: str) -> Had | None:
        for task_id, state in self.others.items():
            call = state.took_effect.get(key) or state.in_doubt.get(key)
            if call is not None and not call.of_task:
                return Had(task_id, call)
        return None

    def foreign(self) -> list[Had]:
        found: dict[tuple[str, float], Had] = {}
        for task_id, state in self.others.items():
            for call in effects_of(state):
                found.setdefault((call.key, call.started), Had(task_id, call))
        return sorted(found.values(), key=lambda one: one.ended)

    def numbers_before(self, base: str, at: float) -> set[int]:
        made = (one for one in self.foreign() if one.call.effect == "once" and one.ended <= at)
        return {int(one.call.key.rpartition(".")[2]) for one in made if base_of(one.call.key) == base}

    def why_not(self, step: StepState, made: Had) -> tuple[str, Had] | None:
        waited = [Had("me", call) for call in self.waited_for(step)]
        gone = [Had("me", call) for call in self.of_gone()]
        for one in (*waited, *gone):
            beside = one in gone and self.beside(self.made_by(one.call.key) or one, made)
            if self.at(one) > made.call.started and not (beside or self.was_so(one, made)):
                return "before", one
        for then in (*waited, *gone):
            for one in self.own_of_others(made):
                if one.call.key == made.call.key:
                    continue
                within = self.at(then) <= one.call.started and one.ended <= made.call.started
                if within and self.changes(one, then) and not (then in gone and self.beside(one, made)):
                    return "after", one
        found = self.undone(made)
        return None if found is None else ("since", found)

    def waited_for(self, step: StepState) -> Iterator[CallState]:
        names = [name for name in self.mine.graph().upstream(step.step.step_id) if name in self.mine.steps]
        calls = [call for name in names for call in self.mine.steps[name].calls.values()]
        return (call for call in calls if call.effect != "reads" and call.status == "succeeded")

    def of_gone(self) -> Iterator[CallState]:
        calls = [call for one in self.mine.left_out for call in one.every_call()]
        return (call for call in calls if call.effect != "reads" and call.status == "succeeded")

    def beside(self, one: Had, made: Had) -> bool:
        names = {one.call.step_id, made.call.step_id}
        there = self.others.get(one.task_id)
        if there is None or one.task_id != made.task_id or not all(name in there.steps for name in names):
            return are_of_two(one, made, TOOLS.get)
        waits = [there.graph().upstream(name) for name in names]
        return len(names) > 1 and not any(name in upstream for name in names for upstream in waits)

    def at(self, one: Had) -> float:
        if (maker := self.made_by(one.call.key)) is not None:
            return maker.ended
        entry = self.mine.ledger.entries.get(one.call.key) if one.call.reused else None
        return entry.at if entry is not None else one.ended

    def was_so(self, one: Had, made: Had) -> bool:
        if one.call.effect != "repeatable" or one.done(TOOLS.get).things.meet(made.done(TOOLS.get).things):
            return False
        own = [Had("me", call) for call in effects_of(self.mine)]
        for other in sorted((*own, *self.foreign()), key=lambda had: had.ended, reverse=False)[::-1]:
            if other.ended > made.call.started:
                continue
            if other.deed.base == one.deed.base:
                return True
            if other.call.tool_id == one.call.tool_id and same_thing(
                other.done(TOOLS.get), one.done(TOOLS.get)
            ):
                return False
        return False

    def own_of_others(self, made: Had) -> Iterator[Had]:
        open_ = [
            one.step
            for one in self.mine.steps.values()
            if not one.closed
            and (
                one.step.for_each
                or one.step.actions
                or all(c.key != made.call.key for c in one.calls.values())
            )
        ]
        for one in self.foreign():
            if one.call.key in self.mine.ledger.entries:
                continue
            theirs = self.others[one.task_id].steps.get(one.call.step_id)
            then = theirs.step if theirs is not None else None
            if not any(may_make(step, one, then, made, TOOLS.get) for step in open_):
                yield one

    def undone(self, made: Had) -> Had | None:
        for one in self.own_of_others(made):
            if one.call.started < made.ended or one.call.key == made.call.key:
                continue
            if self.changes(one, made) and not self.was_so(one, made):
                return one
        return None

    def changes(self, one: Had, made: Had) -> bool:
        state = self.others[one.task_id]
        mine, theirs = state.steps.get(one.call.step_id), state.steps.get(made.call.step_id)
        if (
            mine is not None
            and theirs is not None
            and any(c.key == made.call.key for c in theirs.every_call())
        ):
            if made.call.step_id not in state.graph().upstream(one.call.step_id):
                return False
            if any(ref.head == made.call.step_id for ref in references_of(mine.step)):
                return True
        return is_of_one_thing(one, made, TOOLS.get, is_used=lambda: self.is_used(made.call.key))

    def is_used(self, key: str) -> bool:
        waits = self.mine.graph().needed_by
        calls = ((name, one) for name, step in self.mine.steps.items() for one in step.calls.values())
        return any(waits.get(name) for name, one in calls if one.key == key)


# ── families ──

VALUES = st.sampled_from(["c1", "c2", "/a", "/a/b", 1, 1.0, True, None, ["c1"], {"x": "c2"}, "EUR"])


@st.composite
def a_step(draw: st.DrawFn, name: str, earlier: list[str]) -> Step:
    tool = draw(st.sampled_from(sorted(TOOLS)))
    needs = tuple(draw(st.lists(st.sampled_from(earlier), unique=True, max_size=2))) if earlier else ()
    given_ = {}
    for parameter in TOOLS[tool].parameters["properties"]:
        if needs and draw(st.integers(0, 3)) == 0:
            given_[parameter] = f"${{{needs[0]}.output}}"
        elif draw(st.integers(0, 5)):
            given_[parameter] = draw(VALUES)
    return Step(step_id=name, tool=tool, parameters=given_, dependencies=needs)


@st.composite
def a_plan(draw: st.DrawFn, prefix: str = "s") -> list[Step]:
    steps: list[Step] = []
    for n in range(draw(st.integers(1, 6))):
        steps.append(draw(a_step(f"{prefix}{n}", [one.step_id for one in steps])))
    return steps


def key_of(step: Step, parameters: dict[str, Any], taken: dict[str, int]) -> str:
    base = sha256(json.dumps([step.tool, parameters], sort_keys=True).encode()).hexdigest()[:8]
    taken[base] = taken.get(base, 0) + 1
    return f"{base}.{taken[base]}"


@st.composite
def what_was_done(draw: st.DrawFn, steps: list[Step], of_task: bool = False) -> list[AnyEvent]:
    """The steps, as far as they have come; some failed, some in doubt."""
    made: list[AnyEvent] = []
    ends: list[AnyEvent] = []
    taken: dict[str, int] = {}
    for step in steps:
        become = draw(st.sampled_from(["done", "done", "done", "doubt", "open", "open", "runs"]))
        given_ = {name: "made" if str(one).startswith("$") else one for name, one in step.parameters.items()}
        of = {
            "call_key": key_of(step, given_, taken),
            "step_id": step.step_id,
            "tool_id": step.tool,
            "attempt": 1,
        }
        if become == "open":
            continue
        effect = TOOLS[step.tool].effect
        made += [begun(step.step_id), e.CallStarted(**of, effect=effect, parameters=given_)]
        if become == "done":
            elsewhere = {"reused": True, "of_task": "other1"} if of_task and draw(st.booleans()) else {}
            output = draw(st.sampled_from(["hit", "c1", {"id": "/a"}]))
            end = [e.CallCompleted(**of, output=output, **elsewhere), done(step.step_id)]
        elif become == "doubt":
            fault = Fault(category="external_error", kind="timeout", message="?", happened="unknown")
            end = [e.CallFailed(**of, error=fault, retry_in_secs=None), e.OutcomeUnknown(**of, reason="?")]
        else:
            end = []
        if draw(st.booleans()):
            made += end
        else:
            ends += end
    return [*made, *ends]


@st.composite
def families(
    draw: st.DrawFn,
) -> tuple[list[AnyEvent], list[AnyEvent], dict[str, tuple[list[AnyEvent], float]]]:
    """What the task has done, its new plan, and each other's events with when they began."""
    steps = draw(a_plan())
    again = [one if draw(st.integers(0, 3)) else draw(a_step(one.step_id, [])) for one in steps]
    again = [one for one in again if draw(st.integers(0, 5))]
    names = {one.step_id for one in again}
    again = [
        one.model_copy(update={"dependencies": tuple(n for n in one.dependencies if n in names)})
        for one in again
    ]
    again += draw(a_plan("t")) if draw(st.booleans()) else []
    mine = (
        [*OPENED, planned(*steps), *draw(what_was_done(steps, of_task=True))]
        if draw(st.booleans())
        else [*OPENED]
    )
    others = {
        f"other{n}": (
            [*OPENED, planned(*their), *draw(what_was_done(their))],
            draw(st.sampled_from([0.0, 3.0, 50.0])),
        )
        for n in range(1, 1 + draw(st.integers(1, 2)))
        for their in [steps if draw(st.booleans()) else draw(a_plan())]
    }
    return mine, [planned(*again, version=2), *draw(what_was_done(again, of_task=True))], others


def read_on(family: Family, others: Mapping[str, State]) -> None:
    for _ in family.read_on(others):
        pass


@settings(max_examples=60, deadline=None)
@given(families(), st.data())
def test_what_is_found_by_what_it_is_about_is_what_is_found_by_looking_at_everything(
    family: Any, data: Any
) -> None:
    before, after, theirs = family
    mine, others = State(), {name: State() for name in theirs}
    logs = {name: records(events, start) for name, (events, start) in theirs.items()}
    own = records([*before, *after], 1.0)
    kept = Family(mine, others, TOOLS.get)
    while own or any(logs.values()):  # it is read on and goes on, some events at a time
        for name, log in logs.items():
            upto = data.draw(st.integers(1, 8))
            fold(log[:upto], others[name])
            logs[name] = log[upto:]
        upto = data.draw(st.integers(1, 8))
        fold(own[:upto], mine)
        own = own[upto:]
        read_on(kept, others)
        plain = Plain(mine, others)
        assert [one.call for one in kept.by_others()] == [
            one.call for one in plain.foreign() if one.call.key not in mine.ledger.entries
        ]
        for key in {key for state in others.values() for key in (*state.took_effect, *state.in_doubt)}:
            made = plain.made_by(key)
            found = kept.maker(key)
            assert (found and found.call) == (made and made.call)
            assert kept.numbers_before(base_of(key), 110.0) == plain.numbers_before(base_of(key), 110.0)
            if found is None or made is None:
                continue
            gone = plain.undone(made)
            assert kept.gone_since(key) == ("" if gone is None else f"task {gone.task_id!r} in {gone.told}")
            for step in mine.steps.values():
                expected, told = plain.why_not(step, made), kept.why_not(step, ONLY, key, found)
                assert bool(told) == bool(expected), told
                if expected is not None:
                    kind, one = expected
                    assert {
                        "before": f", before {one.told}",
                        "after": f", after {one.told}",
                        "since": f", and {one.told}",
                    }[kind] in told


@settings(max_examples=150, deadline=None)
@given(a_plan(), st.data())
def test_nothing_that_may_be_about_a_call_or_be_made_by_a_step_is_left_out(
    steps: list[Step], data: Any
) -> None:
    log = records([*OPENED, planned(*steps), *data.draw(what_was_done(steps))])
    others = {"other1": fold(log), "other2": fold(log[: len(log) // 2])}
    foreign = Foreign()
    for _ in foreign.gather(others):
        pass
    for made in foreign.all:
        about = foreign.about(made, subject_of(made, TOOLS.get))
        assert about == sorted(about, key=foreign.all.index)
        for one in foreign.all:
            refers = any(
                ref.head == made.call.step_id
                for ref in references_of(others["other1"].steps[one.call.step_id].step)
            )
            assert one in about or not (refers or is_of_one_thing(one, made, TOOLS.get, is_used=lambda: True))
    written = data.draw(a_plan(data.draw(st.sampled_from(["s", "t"]))))
    mine = fold(records([*OPENED, planned(*written)])).steps.values()
    writers = Writers(mine, TOOLS.get)
    for one in foreign.all:
        found = list(writers.may_make(one))
        for step in mine:
            assert step in found or not may_make(step.step, one, None, one, TOOLS.get)


def many(count: int, *, chain: bool = False, twos: bool = False) -> int:
    """The work of a fork that takes over so many calls of another task, one after the other."""
    steps, done_there, here = [], list[AnyEvent](), list[list[AnyEvent]]()
    for n in range(count):
        needs = (f"s{n - 1}",) if chain and n else ()
        tool = "refund" if twos and n % 2 else "pay"
        steps.append(
            Step(
                step_id=f"s{n}",
                tool=tool,
                parameters={"to": f"c{n}", "amount": n, "in": "EUR"},
                dependencies=needs,
            )
        )
        of = {"call_key": f"k{n}.1", "step_id": f"s{n}", "tool_id": tool, "attempt": 1}
        start = e.CallStarted(**of, effect="once", parameters=steps[-1].parameters)
        done_there += [begun(f"s{n}"), start, e.CallCompleted(**of, output=f"paid {n}"), done(f"s{n}")]
        over = e.CallCompleted(**of, output=f"paid {n}", reused=True, of_task="other1")
        here.append([begun(f"s{n}"), start, over, done(f"s{n}")])
    others = {"other1": fold(records([*OPENED, planned(*steps), *done_there]))}
    mine = fold(records([*OPENED, planned(*steps)], 1e6))
    family = Family(mine, others, TOOLS.get)

    def take_all_over() -> None:
        for n, events in enumerate(here):
            read_on(family, others)
            made = family.maker(f"k{n}.1")
            assert made is not None
            assert family.why_not(mine.steps[f"s{n}"], ONLY, f"k{n}.1", made) == ""
            fold(records(events, 2e6 + 10 * n), mine)

    return calls_in(take_all_over)


@pytest.mark.parametrize("count", [100, 200])
def test_to_take_over_twice_as_many_calls_is_twice_the_work(count: int) -> None:
    assert many(2 * count) <= 2 * MORE * many(count)


def test_each_call_that_is_taken_over_costs_little_also_in_a_chain_or_where_all_name_the_same() -> None:
    """Then each is held against all before or after it, and that is all."""
    for many_ in (many(200, chain=True), many(200, twos=True)):
        assert many_ <= 20 * 200 * 200
