"""The page's fold of a log and the service's come to the same, after every event."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from folding import IN_BROWSER, briefs

from replan.core.events import Record, load


@cache
def logs() -> list[dict[str, Any]]:
    """Logs of tasks as tests of the loop have left them, of every kind of event."""
    return [
        json.loads(line) for line in (Path(__file__).parent / "logs.jsonl").read_text("utf-8").splitlines()
    ]


def record(wire: dict[str, Any]) -> Record:
    event = load(wire["type"], json.dumps(wire["data"]))
    return Record(wire["seq"], wire["task_id"], wire["ts"], wire["round"], event)


def test_after_every_event_of_every_recorded_log_the_fold_is_the_services(modules: Any) -> None:
    found = modules.evaluate(IN_BROWSER, [log["events"] for log in logs()])
    for log, states in zip(logs(), found, strict=True):
        for wire, mine, wanted in zip(log["events"], states, briefs(map(record, log["events"])), strict=True):
            assert mine == wanted, (log["name"], wire["seq"], wire["type"])


def test_an_event_that_comes_twice_counts_once(modules: Any) -> None:
    twice = [[one for event in log["events"] for one in (event, event)] for log in logs()]
    found = modules.evaluate(IN_BROWSER, twice)
    once = modules.evaluate(IN_BROWSER, [log["events"] for log in logs()])
    assert [states[1::2] for states in found] == once


def test_steps_counted_by_state_are_those_of_the_plan(modules: Any) -> None:
    told = modules.evaluate(
        """async (logs) => {
          const { apply, newTask, stepsOf } = await import("replan/store");
          return logs.map((events) => {
            const task = newTask();
            return events.map((event) => {
              apply(task, event);
              const byHand = {};
              for (const step of stepsOf(task)) byHand[step.state] = (byHand[step.state] ?? 0) + 1;
              const counted = Object.fromEntries(Object.entries(task.counts).filter(([, count]) => count));
              return [byHand, counted];
            });
          });
        }""",
        [log["events"] for log in logs()],
    )
    for log, states in zip(logs(), told, strict=True):
        for wire, (by_hand, counted) in zip(log["events"], states, strict=True):
            assert by_hand == counted, (log["name"], wire["seq"], wire["type"])


@pytest.mark.parametrize(
    "state", ["recovering", "waiting", "unknown", "reused", "skipped", "cancelled", "ready"]
)
def test_the_logs_have_steps_of_each_state(modules: Any, state: str) -> None:
    assert modules.evaluate(
        """async ([logs, state]) => {
          const { apply, newTask, stepsOf } = await import("replan/store");
          return logs.some((events) => {
            const task = newTask();
            return events.some((event) => apply(task, event) && stepsOf(task).some((step) => step.state === state));
          });
        }""",
        [[log["events"] for log in logs()], state],
    )
