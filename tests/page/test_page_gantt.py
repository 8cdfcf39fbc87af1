"""The Gantt of a task in a real browser."""

from __future__ import annotations

import itertools
from typing import Any

from bench.page.changed import NIGHT, changed_log
from bench.page.made_up import Log, log_of
from panes import Pane


def gantt(modules: Any, events: list[dict[str, Any]], **more: Any) -> Pane:
    return Pane(modules, events, graph=False, **more)


def bars(pane: Pane, row: str) -> dict[str, int]:
    """How many bars of each kind a row has."""
    told: dict[str, int] = pane.run(
        """
        const kinds = {};
        for (const bar of pane.row(given).querySelectorAll(".beam")) kinds[bar.classList[1]] = bar.getAttribute("d").split("M").length - 1;
        return kinds;
        """,
        row,
    )
    return told


def test_every_try_has_a_bar_and_what_was_waited_for_a_line(modules: Any) -> None:
    pane = gantt(modules, changed_log())
    assert bars(pane, "rates") == {"queue": 1, "failed": 2, "critical": 1}
    assert bars(pane, "ecb")["done"] == 1
    assert bars(pane, "mail")["waiting"] == 1
    assert "running" in bars(pane, "report")
    hatched = pane.run("return getComputedStyle(pane.row('rates').querySelector('.failed')).fill")
    assert hatched.startswith("url(")


def test_rows_that_have_begun_never_move(modules: Any) -> None:
    events = log_of(60)
    moved = gantt(modules, events, until=0).run(
        """
        const { rowsOf } = await import("replan/gantt/rows");
        const { apply, newTask } = await import("replan/store");
        const task = newTask();
        let before = [];
        const moved = [];
        for (const event of given) {
          apply(task, event);
          const rows = rowsOf(task, pane.view).filter((row) => row.begun).map((row) => row.id);
          if (before.some((id, i) => rows[i] !== id)) moved.push(event.seq);
          before = rows;
        }
        return [moved, before.length, rowsOf(task, pane.view).length];
        """,
        events,
    )
    assert moved == [[], 61, 61]  # and one of the calls of the model


def test_what_has_not_begun_stands_below_as_pale_bars(modules: Any) -> None:
    log = Log()
    steps = [
        {"step_id": name, "name": name, "tool": "t", "parameters": {}, "dependencies": needs}
        for name, needs in (("a", []), ("b", ["a"]), ("c", ["b"]))
    ]
    log.begin("three", steps)
    about = {"call_key": "k", "step_id": "a", "attempt": 1, "tool_id": "t"}
    log.say("step_started", step_id="a")
    log.say("call_started", **about, effect="reads", parameters={})
    log.now += 2
    log.say("call_completed", **about, output=1, reused=False, duration_secs=2)
    log.say("step_completed", step_id="a", metadata={}, failed_items=[])
    pane = gantt(modules, log.events)
    assert bars(pane, "b") == {"pale": 1, "critical": 1} or bars(pane, "b") == {"pale": 1}
    x = "return Number(pane.row(given).querySelector('.pale').getAttribute('d').match(/M([0-9.]+)/)[1])"
    assert pane.run(x, "b") < pane.run(x, "c")


def test_a_night_in_which_nothing_ran_is_a_notch(modules: Any) -> None:
    pane = gantt(modules, changed_log(ends=True))
    axis, folds = pane.run(
        "const { axis } = pane.mounted; return [axis.length, axis.folds.map(({ start, end }) => end - start)]"
    )
    assert axis < 60_000 < NIGHT * 1000
    assert len(folds) == 1
    assert abs(folds[0] - NIGHT * 1000) < 10_000
    assert pane.run("return pane.element.querySelector('.fold-word').textContent").startswith("⋯ 287")
    assert "waiting" in bars(pane, "mail")


def test_an_hour_in_the_queue_is_a_notch_too(modules: Any) -> None:
    log = Log()
    log.say("task_submitted", description="one", metadata={}, context={}, policy={}, tools=[], settings={})
    log.now += 3600
    log.say("task_started", driver="made up", version="0")
    plan = {
        "steps": [{"step_id": "a", "name": "a", "tool": "t", "parameters": {}, "dependencies": []}],
        "reasoning": "",
    }
    log.say("plan_generated", plan=plan, task_type="", corrections=0, notes=[])
    log.say("step_started", step_id="a")
    log.say("call_started", call_key="k", step_id="a", attempt=1, tool_id="t", effect="reads", parameters={})
    log.now += 2
    log.say(
        "call_completed",
        call_key="k",
        step_id="a",
        attempt=1,
        tool_id="t",
        output=1,
        reused=False,
        duration_secs=2,
    )
    log.say("step_completed", step_id="a", metadata={}, failed_items=[])
    log.say("task_completed", final_output=1)
    axis, folds = gantt(modules, log.events).run(
        "return [pane.mounted.axis.length, pane.mounted.axis.folds.length]"
    )
    assert folds == 1
    assert axis < 10_000


def test_moments_and_pixels_are_the_same_there_and_back(modules: Any) -> None:
    worst, backwards = gantt(modules, changed_log(ends=True)).run(
        """
        const { axis } = pane.mounted;
        let worst = 0;
        let backwards = 0;
        let before = -Infinity;
        for (let i = 0; i <= 1000; i++) {
          const time = pane.task.created + ((pane.task.ended - pane.task.created) * i) / 1000;
          const x = axis.x(time);
          if (x < before) backwards++;
          before = x;
          worst = Math.max(worst, Math.abs(axis.x(axis.time(x)) - x));
        }
        return [worst, backwards];
        """
    )
    assert worst < 0.01
    assert backwards == 0


def test_the_axis_grows_in_jumps(modules: Any) -> None:
    events = log_of(150)
    lengths = gantt(modules, events, until=0).run(
        """
        const { Axis } = await import("replan/gantt/axis");
        const { apply, newTask } = await import("replan/store");
        const axis = new Axis();
        const task = newTask();
        const lengths = [];
        for (const event of given.slice(0, -1)) {
          apply(task, event);
          axis.update(task, task.last);
          if (axis.length !== lengths[lengths.length - 1]) lengths.push(axis.length);
          if (axis.plain(task.last) > axis.length) return "out of sight";
        }
        return lengths;
        """,
        events,
    )
    assert 2 <= len(lengths) <= 12
    assert all(later > before * 1.4 for before, later in itertools.pairwise(lengths))


def test_of_a_thousand_rows_only_those_in_the_window_are_there(modules: Any) -> None:
    pane = gantt(modules, log_of(1000), groupBy="none", size=(1200, 400))
    count = "return pane.element.querySelectorAll('.row').length"
    assert 10 < pane.run(count) < 40
    first = pane.run("return pane.element.querySelectorAll('.row')[5].dataset.row")
    pane.after("pane.element.querySelector('.time-scroll').scrollTop = 24 * 700")
    assert pane.run(count) < 40
    assert not pane.run("return Boolean(pane.row(given))", first)


def test_groups_are_one_row_that_shows_how_many_ran(modules: Any) -> None:
    pane = gantt(modules, log_of(400))
    kinds = pane.run(
        """
        const group = pane.mounted.rows.find((row) => row.kind === "group");
        return [group.id, [...pane.row(group.id).querySelectorAll(".beam")].map((bar) => bar.getAttribute("class"))];
        """
    )
    assert any("level-4" in kind for kind in kinds[1])
    rows = "return pane.mounted.rows.length"
    before = pane.run(rows)
    pane.after("pane.look({ open: new Set([given]) })", kinds[0])
    pane.after("")
    assert pane.run(rows) > before + 3


def test_calls_of_the_model_are_one_row_until_it_is_opened(modules: Any) -> None:
    pane = gantt(modules, changed_log())
    assert bars(pane, "model") == {"model": 2}
    modules.mouse.click(80, 24 + 12)
    pane.after("")
    assert pane.said("toggle") == ["model"]
    assert bars(pane, "model plan") == {"model": 2}


def test_a_drag_is_a_range_of_time_and_a_press_lets_it_go(modules: Any) -> None:
    pane = gantt(modules, changed_log(ends=True))
    start, end = pane.run(
        "const { axis } = pane.mounted; const at = pane.task.created; return [axis.x(at + 2000), axis.x(at + 6000)]"
    )
    modules.mouse.move(end, 200)
    modules.mouse.down()
    modules.mouse.move(start, 210, steps=4)
    modules.mouse.up()
    chosen = pane.said("range")[-1]
    assert abs(chosen["to"] - chosen["from"] - 4000) < 40
    assert pane.said("select") == []
    modules.mouse.click(start, 24 * 3 + 12)
    pane.after("")
    assert pane.said("range")[-1] is None
    assert len(pane.said("select")) == 1


def test_ctrl_and_the_wheel_zoom_where_the_pointer_is(modules: Any) -> None:
    pane = gantt(modules, changed_log(ends=True))
    modules.mouse.move(500, 200)
    moment = "return pane.mounted.axis.time(500 - pane.element.getBoundingClientRect().left)"
    before = pane.run(moment)
    modules.keyboard.down("Control")
    modules.mouse.wheel(0, -400)
    modules.keyboard.up("Control")
    modules.wait_for_function("pane.mounted.axis.zoomed")
    assert abs(pane.run(moment) - before) < 5
    pane.run("pane.element.querySelector('.time-scroll').focus()")
    modules.keyboard.press("0")
    modules.wait_for_function("!pane.mounted.axis.zoomed")


def test_by_the_keyboard_rows_are_chosen_and_opened(modules: Any) -> None:
    pane = gantt(modules, changed_log())
    modules.keyboard.press("Tab")
    modules.keyboard.press("ArrowDown")
    modules.keyboard.press("ArrowDown")
    modules.keyboard.press("Enter")
    assert pane.said("select") == ["orders", "rates"]
    assert pane.said("open") == ["rates"]


def test_rounds_after_the_first_begin_a_lane(modules: Any) -> None:
    log = Log()
    steps = [
        {"step_id": name, "name": name, "tool": "t", "parameters": {}, "dependencies": []} for name in "ab"
    ]
    log.begin("two", steps)
    for name in "ab":
        if name == "b":
            log.say("round_started", round=2)
        log.say("step_started", step_id=name)
        log.now += 1
        log.say("step_completed", step_id=name, metadata={}, failed_items=[])
    kinds = gantt(modules, log.events).run("return pane.mounted.rows.map((row) => row.id)")
    assert kinds == ["model", "a", "round 2", "b"]
