"""What decided when a task ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.page.changed import NIGHT, changed_log
from bench.page.made_up import Log, log_of

LOGS = [
    json.loads(line)["events"] for line in (Path(__file__).parent / "logs.jsonl").read_text().splitlines()
]
FOLDED = """
  const { newTask, apply } = await import("replan/store");
  const { critical, sums } = await import("replan/critical");
  const folded = (events) => { const task = newTask(); for (const event of events) apply(task, event); return task; };
"""


def run(modules: Any, body: str, value: Any = None) -> Any:
    return modules.evaluate(f"async (given) => {{ {FOLDED} {body} }}", value)


def test_in_every_recorded_log_the_path_leads_from_what_was_needed_to_what_ended_last(modules: Any) -> None:
    wrong, paths = run(
        modules,
        """
        const wrong = [];
        let paths = 0;
        for (const events of given) {
          const task = folded(events);
          const { path, gaps } = critical(task, { now: task.last });
          if (path.length > 1) paths++;
          const ran = [...task.steps.values()].filter((step) => step.startedAt && step.endedAt && step.state !== "skipped");
          const last = Math.max(0, ...ran.map((step) => step.endedAt));
          const end = path.length ? task.steps.get(path[path.length - 1]) : null;
          if (task.ended && ran.length && end.endedAt && end.endedAt < last) wrong.push([task.id, "does not end last", path]);
          for (let i = 1; i < path.length; i++) {
            const [before, step] = [task.steps.get(path[i - 1]), task.steps.get(path[i])];
            const others = step.depends.map((id) => task.steps.get(id)).filter((one) => one.endedAt && one.state !== "skipped");
            if (step.depends.includes(before.id) && others.some((one) => one.endedAt > (before.endedAt || Infinity))) wrong.push([task.id, step.id, "waited for another"]);
          }
          if (new Set(path).size !== path.length) wrong.push([task.id, "a step twice"]);
          if (gaps.some((gap) => !(gap.ms > 0) || !gap.cause)) wrong.push([task.id, "a gap of no time", gaps]);
        }
        return [wrong, paths];
        """,
        LOGS,
    )
    assert wrong == []
    assert paths > 5


def test_the_path_goes_through_the_failure_for_which_there_is_another_plan(modules: Any) -> None:
    path = run(modules, "return critical(folded(given)).path", changed_log(ends=True))
    assert path == ["rates", "ecb", "euros", "late", "people", "letters", "mail"]


def test_the_gaps_are_told_by_what_was_waited_for(modules: Any) -> None:
    total = run(modules, "return sums(critical(folded(given)).gaps)", changed_log(ends=True))
    assert total["retry"] == 1000
    assert 900 < total["model"] < 2500  # the second plan, and the first before anything could begin
    assert abs(total["person"] - NIGHT * 1000) < 5000


def test_a_place_that_was_not_free_is_a_gap(modules: Any) -> None:
    log = Log()
    log.begin(
        "two",
        [{"step_id": name, "name": name, "tool": "t", "parameters": {}, "dependencies": []} for name in "ab"],
    )
    for name in "ab":
        log.say("step_ready", step_id=name)
    for name in "ab":  # the second waits until the first is over
        about = {"call_key": name, "step_id": name, "attempt": 1, "tool_id": "t"}
        log.say("step_started", step_id=name)
        log.say("call_started", **about, effect="reads", parameters={})
        log.now += 2
        log.say("call_completed", **about, output=1, reused=False, duration_secs=2)
        log.say("step_completed", step_id=name, metadata={}, failed_items=[])
    log.say("task_completed", final_output=1)
    path, gaps = run(
        modules, "const { path, gaps } = critical(folded(given)); return [path, gaps]", log.events
    )
    assert path == ["b"]
    assert [(gap["cause"], gap["ms"]) for gap in gaps if gap["cause"] == "place"] == [("place", 2000)]


def test_while_it_runs_what_is_to_come_counts_as_long_as_its_tool_took(modules: Any) -> None:
    steps = [
        {"step_id": "a", "name": "a", "tool": "quick", "parameters": {}, "dependencies": []},
        {"step_id": "b", "name": "b", "tool": "slow", "parameters": {}, "dependencies": []},
        {"step_id": "c", "name": "c", "tool": "quick", "parameters": {}, "dependencies": ["a"]},
        {"step_id": "d", "name": "d", "tool": "slow", "parameters": {}, "dependencies": ["a"]},
    ]
    log = Log()
    log.begin("four", steps)
    log.say("step_started", step_id="a")
    log.say("step_started", step_id="b")
    log.now += 0.5
    log.say("step_completed", step_id="a", metadata={}, failed_items=[])
    body = """
      const task = folded(given);
      const found = critical(task, { now: task.last, typical: (tool) => (tool === "slow" ? 4000 : 100) });
      return [found.path, found.ends - task.last];
    """
    assert run(modules, body, log.events) == [["a", "d"], 4000]


def test_a_tool_that_was_not_seen_counts_as_the_plan_has_it(modules: Any) -> None:
    log = Log()
    step = {
        "step_id": "a",
        "name": "a",
        "tool": "new",
        "parameters": {},
        "dependencies": [],
        "estimated_secs": 7,
    }
    log.begin("one", [step])
    body = "const task = folded(given); return critical(task, { now: task.last }).ends - task.last"
    assert run(modules, body, log.events) == 7000


def test_a_thousand_steps_and_none(modules: Any) -> None:
    body = "const { path, gaps } = critical(folded(given)); return [path.length, gaps.length]"
    length, gaps = run(modules, body, log_of(1000))
    assert length > 5
    assert gaps > 0
    assert run(modules, body, log_of(0)) == [0, 0]
    assert run(modules, body, []) == [0, 0]
