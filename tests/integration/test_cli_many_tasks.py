"""Many tasks on the command line: which of them wait, and for what, and what is done to several at once."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from cli_process import BY_STEPS, folder, one_step, replan

from replan.core.events import (
    PauseRequested,
    ResumeRequested,
    TaskFailed,
    TaskResumed,
    TaskStarted,
    TaskSubmitted,
    TaskWaiting,
)
from replan.core.types import Failure
from replan.store.sqlite import SqliteStore

DB = ("--db", "log.db")


def kept(path: Path, tasks: dict[str, list[Any]]) -> None:
    """Tasks that stand as these events say."""

    async def keep() -> None:
        store = SqliteStore(path / "log.db")
        for task_id, events in tasks.items():
            await store.create(task_id, TaskSubmitted(description=f"do {task_id}"), 1_000.0)
            claim = await store.claim(task_id)
            for ts, event in enumerate(events, 2_000):
                await store.append(claim, [event], ts=float(ts), round=1)
            await store.release(claim)
        await store.aclose()

    asyncio.run(keep())


def listed(path: Path, *args: str) -> dict[str, list[str]]:
    """The tasks of a list, and what each waits for."""
    done = replan("tasks", "list", *args, "--json", *DB, cwd=path)
    assert done.returncode == 0, done.stderr
    return {row["task_id"]: row["waits_for"] for row in json.loads(done.stdout)}


def lines(path: Path, *args: str) -> dict[str, str]:
    done = replan("tasks", "list", *args, *DB, cwd=path)
    return {line.split()[0]: " ".join(line.split()[3:]) for line in done.stdout.splitlines()}


def test_tasks_are_found_by_what_they_wait_for(tmp_path: Path) -> None:
    began = TaskStarted(driver="process 1")
    kept(
        tmp_path,
        {
            "timer": [began, TaskWaiting(reason="until then", until=time.time() + 9_999)],
            "hook": [began, TaskWaiting(reason="a token", until=time.time() + 9_999, callbacks=("cb_1",))],
            "keyless": [began, TaskWaiting(reason="401", until_resumed=True, because="key")],
            "done": [began, TaskFailed(failure=Failure(kind="task", reason="no"))],
            "driven": [began],
            "left": [began, PauseRequested()],
            "resumed": [began, PauseRequested(), ResumeRequested(), TaskResumed(driver="process 2")],
        },
    )
    folder(tmp_path, one_step("add", a=3, b=4))
    asks = replan(*BY_STEPS, *DB, "--task-id", "asks", "--approve", "all", "--interactive", cwd=tmp_path)
    assert asks.returncode == 5, asks.stderr
    assert replan("tasks", "pause", "driven", *DB, cwd=tmp_path).returncode == 0

    waits = {
        "asks": ["person"], "timer": ["time"], "hook": ["time", "callback"], "keyless": ["key"], "driven": ["pause"],
    }  # fmt: skip
    assert {name: sorted(kinds) for name, kinds in listed(tmp_path, "--status", "waiting").items()} == {
        name: sorted(kinds) for name, kinds in waits.items()
    }
    assert set(listed(tmp_path, "--waiting-for", "time")) == {"timer", "hook"}
    assert set(listed(tmp_path, "--waiting-for", "pause", "--waiting-for", "key")) == {
        "driven",
        "keyless",
        "left",
    }
    assert set(listed(tmp_path, "--waiting-for", "person", "--status", "unfinished")) == {"asks"}
    told = lines(tmp_path)
    assert told["left"].startswith("planning (paused) do left")
    assert told["driven"].startswith("waiting (paused) do driven")
    assert told["asks"].startswith("waiting (for a person) ")
    assert told["done"].startswith("failed do done")

    assert replan("tasks", "approve", "asks", *DB, cwd=tmp_path).returncode == 0
    assert lines(tmp_path)["asks"].startswith("waiting (answered) ")
    assert listed(tmp_path, "--waiting-for", "person") == {}

    none = replan("tasks", "list", "--waiting-for", "model", *DB, cwd=tmp_path)
    assert none.stderr.strip() == f"no tasks that wait for model in {tmp_path / 'log.db'}"
    for args, words in (
        (("--waiting-for", "luck"), "there are person, time, callback, pause, key, model, process"),
        (("--waiting-for", "time", "--status", "failed"), "tasks that are failed do not wait"),
    ):
        wrong = replan("tasks", "list", *args, *DB, cwd=tmp_path)
        assert (wrong.returncode, words in wrong.stderr) == (2, True), wrong.stderr


def test_a_list_of_those_that_wait_says_where_there_are_more(tmp_path: Path) -> None:
    waits = [TaskWaiting(reason="?", until=9e9)]
    kept(tmp_path, {f"{kind}{n}": waits if kind == "w" else [] for n in range(3) for kind in "wx"})

    some = replan("tasks", "list", "--waiting-for", "time", "--limit", "2", *DB, cwd=tmp_path)

    assert [line.split()[0] for line in some.stdout.splitlines()] == ["w2", "w1"]
    assert "`--limit 0` lists all" in some.stderr
    assert (
        "more"
        not in replan("tasks", "list", "--waiting-for", "time", "--limit", "3", *DB, cwd=tmp_path).stderr
    )


def test_several_tasks_are_paused_and_cancelled_at_once_and_the_others_are_told(tmp_path: Path) -> None:
    ended = [TaskFailed(failure=Failure(kind="task", reason="no"))]
    kept(tmp_path, {"a": [TaskStarted()], "b": [TaskStarted()], "c": ended, "d": [TaskStarted()]})

    paused = replan("tasks", "pause", "a", "c", "nobody", "b", *DB, cwd=tmp_path)
    assert paused.returncode == 2, "some could not be"
    assert "a is paused" in paused.stderr
    assert "b is paused" in paused.stderr
    assert "'c' has ended" in paused.stderr
    assert f"there is no task 'nobody' in {tmp_path / 'log.db'}" in paused.stderr
    assert set(listed(tmp_path, "--waiting-for", "pause")) == {"a", "b"}

    would = replan("tasks", "cancel", "--waiting-for", "pause", *DB, cwd=tmp_path)
    assert (would.returncode, "would cancel 2 tasks; --yes does it" in would.stderr) == (0, True)
    assert {line.split()[0] for line in would.stdout.splitlines()} == {"a", "b"}
    assert set(listed(tmp_path, "--status", "cancelled")) == set()
    done = replan("tasks", "cancel", "--waiting-for", "pause", "--yes", "--reason", "so", *DB, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("has been cancelled")) == (0, 2), done.stderr
    every = replan("tasks", "cancel", "--status", "unfinished", "--yes", *DB, cwd=tmp_path)
    assert (every.returncode, "d has been cancelled" in every.stderr) == (0, True)
    assert set(listed(tmp_path, "--status", "cancelled")) == {"a", "b", "d"}
    nothing = replan("tasks", "cancel", "--status", "unfinished", "--yes", *DB, cwd=tmp_path)
    assert nothing.returncode == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("cancel",), "say which tasks"),
        (("cancel", "a", "--status", "waiting"), "say which tasks"),
        (("resume", "a", "b"), "one task at a time"),
        (("resume", "a", "--detach", "--tools", "tools.py"), "leave --detach out"),
    ],
)
def test_what_cannot_be_meant_of_several_tasks_is_said(
    tmp_path: Path, args: tuple[str, ...], words: str
) -> None:
    kept(tmp_path, {"a": [TaskStarted()], "b": [TaskStarted()]})

    wrong = replan("tasks", *args, *DB, cwd=folder(tmp_path))

    assert (wrong.returncode, words in wrong.stderr) == (2, True), wrong.stderr


def test_a_task_that_is_shown_says_who_drove_it_when_and_that_it_is_paused(tmp_path: Path) -> None:
    kept(
        tmp_path,
        {"t": [TaskStarted(driver="process 7 on a.example"), TaskResumed(driver="process 8 on b.example")]},
    )
    replan("tasks", "pause", "t", "--reason", "lunch", "--by", "Ann", *DB, cwd=tmp_path)

    shown = replan("tasks", "show", "t", *DB, cwd=tmp_path).stdout
    data = json.loads(replan("tasks", "show", "t", "--json", *DB, cwd=tmp_path).stdout)

    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.search(rf"driven from {when} to {when} by process 7 on a.example", shown), shown
    assert re.search(rf"driven from {when} to {when} by process 8 on b.example", shown), shown
    assert "not ended: paused" in shown
    assert "pause: it was paused by Ann: lunch" in shown
    assert "to go on with it: replan tasks resume t --db log.db" in shown
    assert [one["driver"] for one in data["drives"]] == ["process 7 on a.example", "process 8 on b.example"]
    assert data["drives"][0]["begun"] == 2_000.0
    assert [one["kind"] for one in data["waiting_for"]] == ["pause"]


def test_who_finds_no_tasks_is_told_in_which_store(tmp_path: Path) -> None:
    where = tmp_path / "home" / "state"
    env = {"APP_DATABASE_SERVICE_CONNECTION_STRING": str(where / "own.db")}

    none = replan("tasks", "list", cwd=tmp_path, env=env)
    last = replan("tasks", "show", "last", cwd=tmp_path, env=env)

    assert none.stderr.strip() == f"no tasks in {where / 'own.db'}"
    assert f"{where / 'own.db'} has none yet" in last.stderr


def test_a_task_that_waits_is_found_as_paused_whatever_else_it_waits_for(tmp_path: Path) -> None:
    began = TaskStarted(driver="process 1")
    kept(
        tmp_path,
        {
            "timer": [began, TaskWaiting(reason="until then", until=time.time() + 9_999)],
            "hook": [began, TaskWaiting(reason="a token", callbacks=("cb_1",))],
            "late": [began, PauseRequested(), TaskWaiting(reason="a token", callbacks=("cb_2",))],
            "goes_on": [began, TaskWaiting(reason="?", until=9e9), PauseRequested(), ResumeRequested()],
        },
    )
    folder(tmp_path, one_step("add", a=3, b=4))
    asks = replan(*BY_STEPS, *DB, "--task-id", "asks", "--approve", "all", "--interactive", cwd=tmp_path)
    assert asks.returncode == 5, asks.stderr
    names = ("timer", "hook", "asks")
    assert replan("tasks", "pause", *names, "--reason", "the ledger", *DB, cwd=tmp_path).returncode == 0

    assert set(listed(tmp_path, "--waiting-for", "pause")) == {"timer", "hook", "asks", "late"}
    assert listed(tmp_path, "--waiting-for", "callback")["hook"] == ["callback", "pause"]
    assert lines(tmp_path)["asks"].startswith("waiting (for a person, paused) ")
    shown = replan("tasks", "show", "hook", *DB, cwd=tmp_path).stdout
    assert "not ended: paused" in shown
    assert "the ledger" in shown

    agreed = replan("tasks", "approve", "asks", *DB, cwd=tmp_path)
    assert "it is paused, and goes on once that is over" in agreed.stderr
    assert lines(tmp_path)["asks"].startswith("waiting (paused) ")
    shown = replan("tasks", "show", "asks", *DB, cwd=tmp_path).stdout
    assert "not ended: paused" in shown
    assert "tasks resume asks" in shown

    ended = replan("tasks", "cancel", "--waiting-for", "pause", "--yes", *DB, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert listed(tmp_path, "--waiting-for", "pause") == {}
    none = replan("tasks", "cancel", "--waiting-for", "pause", "--yes", *DB, cwd=tmp_path)
    assert "none is cancelled" in none.stderr
