"""What is shown costs the same for each record, and a frame the same for any plan. Counted in calls, not in seconds."""

from __future__ import annotations

import io
from collections.abc import Callable

from picture_records import call, plan, records, step

from counting import MORE, calls_in
from replan.cli.commands.history import tell
from replan.cli.live.draw import render
from replan.cli.live.picture import PictureState
from replan.cli.live.plain import PlainLines
from replan.cli.terminal.terminal import Out
from replan.core import events as e
from replan.core.events import Record

FEW, MANY = 250, 1_000


def assert_linear(few: Callable[[], object], many: Callable[[], object]) -> None:
    few()  # what is made once and kept
    assert calls_in(many) <= MORE * MANY / FEW * calls_in(few)


def log(count: int) -> list[Record]:
    """Layers of ten, and every step of them run."""
    names = [f"s{n}" for n in range(count)]
    steps = [step(name, *names[max(0, n // 10 * 10 - 10) : n // 10 * 10]) for n, name in enumerate(names)]
    told: list[tuple[float, e.AnyEvent]] = [
        (0.0, e.TaskSubmitted(description="look")),
        (0.0, e.TaskStarted()),
        (0.0, e.PlanGenerated(plan=plan(*steps))),
        (0.0, e.ExecutionMode(mode="parallel", reason="they can overlap")),
    ]
    for n, name in enumerate(names):
        told += [
            (n, e.StepReady(step_id=name)),
            (n, e.StepStarted(step_id=name)),
            (n, e.CallStarted.model_validate(call(name, effect="reads", parameters={"n": n}))),
            (n, e.StepProgress(step_id=name, message="half way", progress=1, total=2)),
            (n, e.CallCompleted.model_validate(call(name, output=n))),
            (n, e.StepCompleted(step_id=name)),
        ]
    return records([*told, (count, e.TaskCompleted(final_output="done", score=100.0))])


def test_taking_records() -> None:
    few, many = log(FEW), log(MANY)
    assert_linear(lambda: PictureState.of(few), lambda: PictureState.of(many))


def test_plain_lines() -> None:
    def lines(of: list[Record]) -> None:
        view = PictureState()
        plain = PlainLines(view)
        for record in of:
            view.apply(record)
            plain.line(record)

    few, many = log(FEW), log(MANY)
    assert_linear(lambda: lines(few), lambda: lines(many))


def test_telling_the_past() -> None:
    few, many = log(FEW), log(MANY)
    assert_linear(lambda: tell(Out(io.StringIO()), few), lambda: tell(Out(io.StringIO()), many))


def test_a_frame_costs_the_same_for_any_plan() -> None:
    few, many = (PictureState.of(log(count)[: 4 + count * 3]) for count in (FEW, MANY))
    for view in (few, many):
        assert 0 < view.done < len(view.steps)

    def frame(view: PictureState) -> None:
        render(view, 1_000.0, 100, rows=40)

    frame(few)
    frame(many)
    assert calls_in(lambda: frame(many)) <= MORE * calls_in(lambda: frame(few))
