"""A process is killed at any point and the task is driven on: same outcome, nothing done twice."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

HERE = Path(__file__).parent
CASES = ("chain", "wide", "actions", "items", "metadata", "when", "large", "retries", "failure", "cancel")
TERMINAL = {"task_completed", "task_failed", "task_cancelled", "task_timed_out"}
READS = {"read", "sign_in", "show", "big", "broken", "stop"}
SEED = 20_240_607

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


class Processes:
    """Starts a process for each job, and remembers what an undisturbed run of each task comes to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._baselines: dict[str, dict[str, Any]] = {}
        self._nursery = subprocess.Popen(
            [sys.executable, str(HERE / "child.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, mode: str, tasks: list[str], folder: Path, kill: list[Any] | None = None) -> bool:
        """True if the process came to its end, False if it was killed; anything else fails the test."""
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        job = {"mode": mode, "tasks": tasks, "folder": str(folder), "kill": kill}
        self._nursery.stdin.write(json.dumps(job) + "\n")
        self._nursery.stdin.flush()
        code = json.loads(self._nursery.stdout.readline())
        assert code in (0, -signal.SIGKILL), (kill, (folder / "traceback").read_text())
        return bool(code == 0)

    def baseline(self, case: str) -> dict[str, Any]:
        """What the task comes to when nobody kills it, and how many writes and calls it takes."""
        if case not in self._baselines:
            folder = self._folder / f"baseline-{case}"
            folder.mkdir()
            assert self.do("run", [case], folder)
            self._baselines[case] = json.loads((folder / "result.json").read_text())
        return self._baselines[case]

    def close(self) -> None:
        self._nursery.communicate()


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("crash"))
    yield made
    made.close()


def log_of(folder: Path, task_id: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The task's events as they lie in the database; none if there is no task yet."""
    if (folder / "address").exists():
        with psycopg.connect((folder / "address").read_text()) as server:
            try:
                found = server.execute(
                    "SELECT seq, type, data FROM replan.events WHERE task = (SELECT id FROM replan.task WHERE task_id = %s)"
                    " ORDER BY seq",
                    (task_id,),
                ).fetchall()
            except psycopg.errors.UndefinedTable:  # killed before the tables were made
                return []
        return [(seq, kind, json.loads(data)) for seq, kind, data in found]
    if not (folder / "log.db").exists():
        return []
    with contextlib.closing(sqlite3.connect(folder / "log.db")) as db:
        try:
            rows = db.execute(
                "SELECT seq, type, data FROM events WHERE task = (SELECT id FROM task WHERE task_id = ?) ORDER BY seq",
                (task_id,),
            ).fetchall()
        except sqlite3.OperationalError:  # killed before the tables were made
            return []
    return [(seq, kind, json.loads(data)) for seq, kind, data in rows]


def cut_off(folder: Path, task_id: str) -> set[str]:
    """Keys of the calls with an effect that the log knows the start of, and no end."""
    open_calls: dict[str, str] = {}
    for _, kind, data in log_of(folder, task_id):
        if kind == "call_started" and data["effect"] == "once":
            open_calls[data["call_key"]] = data["tool_id"]
        elif kind in ("call_completed", "call_failed"):
            open_calls.pop(data["call_key"], None)
    return set(open_calls)


def outcome(result: dict[str, Any]) -> dict[str, Any]:
    """What has to be the same however often the process was killed."""
    return {
        "status": result["status"],
        "kind": (result["failure"] or {}).get("kind"),
        "output": result["final_output"],
        "steps": {step["step_id"]: (step["status"], step["output"]) for step in result["steps"]},
    }


def check_log(folder: Path, task_id: str, doubted: set[str]) -> None:
    log = log_of(folder, task_id)
    assert [seq for seq, _, _ in log] == list(range(1, len(log) + 1))
    kinds = [kind for _, kind, _ in log]
    assert [kind for kind in kinds if kind in TERMINAL] == kinds[-1:]
    assert kinds.count("task_submitted") == 1
    started, completed, places = Counter[str](), Counter[str](), Counter[tuple[str, str, int]]()
    for _, kind, data in log:
        if kind == "call_started":
            assert data["call_key"] not in completed, f"{data} was made again"
            assert data["call_key"] not in doubted or not started[data["call_key"]], f"{data} was in doubt"
            started[data["call_key"]] += 1
        elif kind == "call_completed":
            completed[data["call_key"]] += 1
            places[data["step_id"], data["action_id"], data["index"]] += 1
    assert all(count == 1 for count in places.values()), places
    assert all(count == 1 for count in completed.values())
    assert {data["call_key"] for _, kind, data in log if kind == "outcome_unknown"} == doubted
    steps = Counter(
        data["step_id"] for _, kind, data in log if kind in ("step_completed", "step_failed", "step_skipped")
    )
    assert all(count == 1 for count in steps.values())
    effects = Path(folder, "effects")
    lines = effects.read_text().splitlines() if effects.exists() else []
    marks = [mark for mark in map(json.loads, lines) if mark["task"] == task_id]
    made = Counter(mark["key"] for mark in marks)
    for mark in marks:  # the start of a mere reading need not be on disk before it is made
        assert mark["tool"] in READS or made[mark["key"]] <= started[mark["key"]], mark
    charged = Counter((mark["tool"], mark["what"]) for mark in marks if mark["tool"] in ("charge", "post"))
    assert all(count == 1 for count in charged.values()), charged


def check(folder: Path, case: str, task_id: str, expected: dict[str, Any], doubted: set[str]) -> None:
    """The task has ended as it would have ended undisturbed, or says which call is in doubt."""
    check_log(folder, task_id, doubted)
    result = json.loads((folder / "result.json").read_text())["tasks"][task_id]
    got, wanted = outcome(result), outcome(expected)
    if case == "metadata":  # which token the items see depends on when the other step ends
        got["steps"].pop("each")
        wanted["steps"].pop("each")
    if case == "cancel" and (not doubted or got["status"] == "cancelled"):
        assert (got["status"], got["kind"]) == ("cancelled", "cancelled")
    elif doubted:
        assert (got["status"], got["kind"]) == ("failed", "outcome_unknown")
        assert result["failure"]["call_key"] in doubted
        assert result["failure"]["call_key"] in result["failure"]["reason"]
        assert "charge" in result["failure"]["reason"] or "post" in result["failure"]["reason"]
        for step_id, (status, output) in got["steps"].items():
            if status == "succeeded" and step_id in wanted["steps"]:
                assert output == wanted["steps"][step_id][1]
    else:
        assert got == wanted


def kill_and_resume(
    processes: Processes, folder: Path, case: str, kill: list[Any], again: list[Any] | None = None
) -> None:
    expected = processes.baseline(case)["tasks"][case]
    doubted: set[str] = set()
    if not processes.do("run", [case], folder, kill):
        doubted |= cut_off(folder, case)
        if again is not None and not processes.do("resume", [case], folder, again):
            doubted |= cut_off(folder, case)
        assert processes.do("resume", [case], folder)
    check(folder, case, case, expected, doubted)


def points(baseline: dict[str, Any]) -> list[list[Any]]:
    """Every point at which a run can be killed."""
    return [
        [what, n, when]
        for what, count in (("commit", baseline["writes"]), ("call", baseline["calls"]))
        for n in range(1, count + 1)
        for when in ("before", "after")
    ]


@pytest.mark.parametrize("turn", range(2))
@pytest.mark.parametrize("case", CASES)
def test_a_killed_task_goes_on_and_does_nothing_twice(
    processes: Processes, tmp_path: Path, case: str, turn: int
) -> None:
    chance = random.Random(f"{SEED} {case} {turn}")
    kill_and_resume(processes, tmp_path, case, chance.choice(points(processes.baseline(case))))


@pytest.mark.parametrize("case", ["wide", "actions", "items", "large", "cancel"])
def test_a_task_that_is_killed_again_while_it_is_resumed_still_ends_right(
    processes: Processes, tmp_path: Path, case: str
) -> None:
    chance = random.Random(f"{SEED} {case} twice")
    every = points(processes.baseline(case))
    second = [point for point in every if point[1] <= 4]
    kill_and_resume(processes, tmp_path, case, chance.choice(every), chance.choice(second))


@pytest.mark.prove
@pytest.mark.parametrize("case", CASES)
def test_a_task_can_be_killed_at_every_point(processes: Processes, tmp_path: Path, case: str) -> None:
    for number, kill in enumerate(points(processes.baseline(case))):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            kill_and_resume(processes, folder, case, kill)
        except AssertionError as error:
            raise AssertionError(f"killed at {kill}: {error}") from error


@pytest.mark.prove
@pytest.mark.parametrize("case", CASES)
def test_a_resumption_can_be_killed_at_every_point(processes: Processes, tmp_path: Path, case: str) -> None:
    every = points(processes.baseline(case))
    chance = random.Random(f"{SEED} {case} every")
    for number, again in enumerate(every):
        folder = tmp_path / str(number)
        folder.mkdir()
        kill = chance.choice(every)
        try:
            kill_and_resume(processes, folder, case, kill, again)
        except AssertionError as error:
            raise AssertionError(f"killed at {kill}, then at {again}: {error}") from error


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.prove)])
def test_many_tasks_in_flight_are_killed_together_and_all_go_on(
    processes: Processes, tmp_path: Path, count: int
) -> None:
    tasks = [f"{CASES[n % len(CASES)]}.{n}" for n in range(count)]
    chance = random.Random(f"{SEED} {count}")
    doubted: dict[str, set[str]] = {task_id: set() for task_id in tasks}
    kills = 0
    for mode in ("run", "resume", "resume"):
        kill = ["commit", chance.randrange(count, 4 * count), "after"]
        if not processes.do(mode, tasks, tmp_path, kill):
            kills += 1
            for task_id in tasks:
                doubted[task_id] |= cut_off(tmp_path, task_id)
    assert kills
    assert processes.do("resume", tasks, tmp_path)
    for task_id in tasks:
        case = task_id.partition(".")[0]
        expected = processes.baseline(case)["tasks"][case]
        check(tmp_path, case, task_id, expected, doubted[task_id])
