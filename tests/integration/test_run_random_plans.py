"""Random plans against a model of what should become of them, on virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_tasks import FakeSource, FakeTool, Ran, action, bench, plan, step

from replan.testing import virtual_time

EXAMPLES = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Call:
    """One call: how long it takes, whether it fails, how many passing faults come before its outcome."""

    secs: int = 10
    fails: bool = False
    passing: int = 0


@dataclass(frozen=True)
class Piece:
    """One step: what it needs, whether it refers to those outputs, its condition and its calls."""

    name: str
    kind: str
    needs: tuple[str, ...]
    refers: bool
    condition: str
    calls: tuple[Call, ...]


CALLS = st.builds(
    Call,
    secs=st.integers(1, 9).map(lambda n: n * 10),
    fails=st.sampled_from([False] * 7 + [True]),
    passing=st.sampled_from([0] * 6 + [1, 2]),
)


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    made: list[Piece] = []
    for n in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["one", "one", "one", "actions", "items"]))
        count = 1 if kind == "one" else draw(st.integers(1 if kind == "actions" else 0, 5))
        needs = (
            draw(st.lists(st.sampled_from([p.name for p in made]), max_size=3, unique=True)) if made else []
        )
        made.append(
            Piece(
                name=f"s{n}",
                kind=kind,
                needs=tuple(needs),
                refers=draw(st.booleans()),
                condition=draw(st.sampled_from(["", "", "", "", "yes", "no"])),
                calls=tuple(draw(st.lists(CALLS, min_size=count, max_size=count))),
            )
        )
    order = draw(st.permutations(range(len(made))))
    return [made[at] for at in order]


def written(piece: Piece) -> dict[str, Any]:
    """The step as a plan has it."""
    refers = {need: f"${{{need}.output}}" for need in piece.needs} if piece.refers else {}
    names = [f"{piece.name}_c{n}" for n in range(len(piece.calls))]
    more: dict[str, Any] = {}
    if piece.condition:
        more["when"] = f"metadata.{piece.condition}"
    if piece.kind == "actions":
        more["actions"] = [action(f"{name}_a", "t", call=name, **refers) for name in names]
        return step(piece.name, "", *piece.needs, **more)
    if piece.kind == "items":
        more["for_each"] = f"${{metadata.{piece.name}_items}}"
        return step(piece.name, "t", *piece.needs, parameters={"call": "${item}", **refers}, **more)
    return step(piece.name, "t", *piece.needs, parameters={"call": names[0], **refers}, **more)


def expected(made: list[Piece]) -> dict[str, str]:
    """What should become of each step: the model that the run is held against."""
    by_name = {piece.name: piece for piece in made}
    status: dict[str, str] = {}

    def of(name: str) -> str:
        if name not in status:
            piece = by_name[name]
            needs = [of(need) for need in piece.needs]
            if any(one in ("failed", "blocked") for one in needs):
                status[name] = "blocked"
            elif piece.condition == "no" or (piece.refers and "skipped" in needs):
                status[name] = "skipped"
            else:
                status[name] = "failed" if any(call.fails for call in piece.calls) else "succeeded"
        return status[name]

    for piece in made:
        of(piece.name)
    return status


class Tool:
    """Does to each call what its `Call` says."""

    def __init__(self, made: list[Piece]) -> None:
        self.calls = {f"{p.name}_c{n}": call for p in made for n, call in enumerate(p.calls)}
        self.tries: dict[str, int] = dict.fromkeys(self.calls, 0)

    def __call__(self, parameters: dict[str, Any]) -> Any:
        name = parameters["call"]
        call = self.calls[name]
        self.tries[name] += 1
        if self.tries[name] <= call.passing:
            raise ConnectionResetError("try again")
        if call.fails:
            raise ValueError("no")
        return name


def run(made: list[Piece], limit: int, *, parallel: bool = True) -> tuple[Ran, Tool]:
    tool = Tool(made)

    async def main() -> Ran:
        class Timed(FakeSource):
            async def call(self, call: Any) -> Any:
                self.running += 1
                self.most_running = max(self.most_running, self.running)
                try:
                    await asyncio.sleep(tool.calls[call.parameters["call"]].secs)
                finally:
                    self.running -= 1
                most = self.most_running
                try:
                    return await super().call(call)
                finally:
                    self.most_running = most

        table = await bench(Timed({"t": FakeTool(output=tool)}))
        items = {f"{p.name}_items": [f"{p.name}_c{n}" for n in range(len(p.calls))] for p in made}
        return await table.run(
            plan(*map(written, made)),
            metadata={"yes": True, "no": False, **items},
            budget={"task_timeout_secs": None},
            parallel_max_concurrent=limit,
            enable_parallel_execution=parallel,
        )

    return virtual_time(main()).check(), tool


@EXAMPLES
@given(made=pieces(), limit=st.integers(1, 5), parallel=st.sampled_from([True, True, False]))
def test_every_step_comes_out_as_the_model_says(made: list[Piece], limit: int, parallel: bool) -> None:
    ran, tool = run(made, limit, parallel=parallel)
    want = expected(made)
    assert ran.statuses() == {name: "skipped" if s == "blocked" else s for name, s in want.items()}
    for skipped in ran.events("step_skipped"):
        assert skipped.reason
        assert (skipped.kind == "dependency_failed") is (want[skipped.step_id] == "blocked")
    for piece in made:
        runs = want[piece.name] in ("succeeded", "failed")
        for n, call in enumerate(piece.calls):
            assert tool.tries[f"{piece.name}_c{n}"] == (1 + call.passing if runs else 0)
    assert ran.source.most_running <= (limit if parallel else 1)
    assert ran.result.is_success is (not {"failed", "blocked"} & set(want.values()))
    for piece in made:
        if want[piece.name] == "succeeded":
            names = [f"{piece.name}_c{n}" for n in range(len(piece.calls))]
            out: Any = names if piece.kind == "items" else {f"{name}_a": name for name in names}
            assert ran.outputs()[piece.name] == (names[0] if piece.kind == "one" else out)


@EXAMPLES
@given(made=pieces(), limit=st.integers(1, 5))
def test_every_step_is_recorded_in_order_and_the_log_is_the_state(made: list[Piece], limit: int) -> None:
    ran, _ = run(made, limit)
    ended: set[str] = set()
    started: set[str] = set()
    for record in ran.records:
        name = getattr(record.event, "step_id", "")
        if record.type == "step_started":
            started.add(name)
            needs = next(p.needs for p in made if p.name == name)
            assert set(needs) <= ended, "it started before what it needs had ended"
        elif record.type in ("call_started", "call_completed", "call_failed"):
            assert name in started
            assert name not in ended
        elif record.type in ("step_completed", "step_failed", "step_skipped"):
            assert name not in ended, "it ended twice"
            ended.add(name)
    assert ended == {piece.name for piece in made}
    assert ran.driven is not None
    for of_driven, of_log in zip(ran.driven.steps.values(), ran.state.steps.values(), strict=True):
        assert of_driven == of_log
    for name in (
        "status",
        "round",
        "usage",
        "ledger",
        "in_doubt",
        "outcome",
        "metadata",
        "active_secs",
        "open_steps",
    ):
        assert getattr(ran.driven, name) == getattr(ran.state, name), name


@EXAMPLES
@given(made=pieces(), limit=st.integers(1, 5))
def test_no_place_stays_free_while_work_waits(made: list[Piece], limit: int) -> None:
    """Any list schedule ends within the critical path plus what is left of the work, shared (Graham's bound)."""
    made = [replace(p, calls=tuple(replace(c, passing=0, fails=False) for c in p.calls)) for p in made]
    ran, _ = run(made, limit)
    want = expected(made)
    by_name = {piece.name: piece for piece in made}
    work = {p.name: [c.secs for c in p.calls] if want[p.name] == "succeeded" else [] for p in made}
    path: dict[str, int] = {}

    def longest(name: str) -> int:
        if name not in path:
            before = max((longest(need) for need in by_name[name].needs), default=0)
            path[name] = before + max(work[name], default=0)
        return path[name]

    critical = max(map(longest, by_name))
    total = sum(map(sum, work.values()))
    bound = critical + (total - critical) / limit if limit > 1 else total
    assert ran.state.active_secs <= bound + 0.01
    assert ran.state.active_secs >= max(critical, total / limit) - 0.01


@pytest.mark.parametrize("steps", [1, 50, 400])
def test_a_chain_takes_the_time_of_its_calls_and_no_more(steps: int) -> None:
    made = [Piece(f"s{n}", "one", (f"s{n - 1}",) if n else (), True, "", (Call(10),)) for n in range(steps)]
    ran, _ = run(made, 8)
    # from the first call on: before it a large plan is read in a thread, whose time is real
    first, last = (
        [record.ts for record in ran.records if record.type == kind]
        for kind in ("call_started", "call_completed")
    )
    assert last[-1] - first[0] == pytest.approx(steps * 10, abs=0.01)
