"""`replan submit`, `replan worker` and what the other commands say of tasks that workers take: real processes."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cli_process import PLAN, folder, going_on, one_step, replan
from warm_command import Process

from postgres_server import PostgresServer
from replan.testing import ScriptedEndpoint

ENGINE = {"APP_ENGINE_KIND": "procrastinate", "APP_ENGINE_TAKEOVER_SECS": "3"}
JUDGED = {
    "overall_score": 95, "is_successful": True, "final_output": "seven",
    "dimensions": {"completeness": 100, "correctness": 95, "efficiency": 90, "reliability": 90},
    "successes": [], "failures": [], "improvement_suggestions": [],
}  # fmt: skip
BY_STEPS = ("--plan", "plan.json", "--evaluation", "steps", "--tools", "tools.py")


class Place:
    """A folder and a database."""

    def __init__(self, path: Path, address: str) -> None:
        self.path = folder(path)
        self.address = address
        self.env = {**ENGINE, "APP_DATABASE_SERVICE_CONNECTION_STRING": address}

    def do(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return replan(*args, cwd=self.path, env={**self.env, **env})

    def plan(self, plan: dict[str, Any]) -> None:
        (self.path / "plan.json").write_text(json.dumps(plan))

    @contextmanager
    def worker(self, *args: str, **env: str) -> Iterator[Process]:
        """A worker that is at work, and is told to end."""
        with self.follow("worker", "--json", *args, **env) as process:
            said = process.stdout.readline()
            assert said, process.stderr.read()
            assert json.loads(said)["pid"] == process.pid
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                _, told = process.communicate(timeout=60)
                assert (process.returncode, "Traceback" in told) == (0, False), told

    def follow(self, *args: str, **env: str) -> AbstractContextManager[Process]:
        """A command that goes on while the test does other things."""
        return going_on(*args, cwd=self.path, env={**self.env, **env})


@pytest.fixture
def place(tmp_path: Path, postgres_database: str) -> Place:
    return Place(tmp_path, postgres_database)


def test_a_task_is_handed_in_waited_for_and_told_by_every_command(place: Place) -> None:
    handed_in = place.do("submit", *BY_STEPS, "--task-id", "t1", "--priority", "2")
    assert (handed_in.returncode, handed_in.stdout) == (0, "t1\n"), handed_in.stderr
    assert "no worker is running" in handed_in.stderr
    shown = place.do("tasks", "show", "t1")
    assert "no worker is running: start one with `replan worker`" in shown.stdout
    assert (
        "no worker is running"
        in json.loads(place.do("tasks", "show", "t1", "--json").stdout)["waits_for_worker"]
    )
    sick = json.loads(place.do("doctor", "--json").stdout)
    assert [one["found"] for one in sick["checks"] if one["name"] == "workers"] == ["no worker is running"]

    with place.worker("--tools", "tools.py"):
        watched = place.do("tasks", "watch", "t1")
        assert (watched.returncode, watched.stdout.strip()) == (0, "7"), watched.stderr
        ran = place.do("run", *BY_STEPS, "--task-id", "t2", "--json")
        assert json.loads(ran.stdout)["final_output"] == 7, ran.stderr
        well = place.do("doctor", "--json")
        (workers,) = [one["found"] for one in json.loads(well.stdout)["checks"] if one["name"] == "workers"]
        assert workers == "1 worker, 0 of 10 places taken"
        with psycopg.connect(place.address) as database:
            (ahead,) = database.execute("SELECT ahead FROM replan.worker").fetchone() or (None,)
        assert abs(ahead) < 60, "a worker tells how far its clock is from the database's"

        detached = place.do("run", *BY_STEPS, "--detach", "--task-id", "t3")
        assert (detached.returncode, detached.stdout) == (0, "t3\n"), detached.stderr
        assert place.do("tasks", "watch", "t3").stdout.strip() == "7"

        place.plan(one_step("fail", why="out of luck"))
        other = place.do("submit", *BY_STEPS, "--json")
        task_id = json.loads(other.stdout)["task_id"]
        assert place.do("tasks", "watch", task_id).returncode == 1


def test_a_task_says_which_tool_it_waits_for_while_somebody_follows_it(place: Place) -> None:
    (place.path / "other.py").write_text('def greet(name: str) -> str:\n    """Greet."""\n    return name\n')
    place.plan(one_step("greet", name="Ada"))
    with place.worker("--tools", "tools.py"):
        command = ["run", "--plan", "plan.json", "--evaluation", "steps", "--tools", "other.py"]
        with place.follow(*command, "--task-id", "t") as follower:
            said = next(line for line in follower.stderr if "no worker has taken" in line)
            assert re.search(r"for \d+ s: it waits for a worker that has the tool 'greet'", said)
            sick = place.do("doctor", "--json")
            (line,) = [one for one in json.loads(sick.stdout)["checks"] if one["name"] == "queue"]
            assert (
                "1 task of the queue 'default': it waits for a worker that has the tool 'greet'"
                in line["found"]
            )
            with place.worker("--tools", "other.py"):
                answer, _ = follower.communicate(timeout=60)
            assert (follower.returncode, answer.strip()) == (0, "Ada")


def test_a_worker_asks_models_with_its_own_key_and_leaves_tasks_of_other_models_alone(place: Place) -> None:
    answers = {"execution_plan": PLAN, "evaluation": JUDGED}
    with ScriptedEndpoint(answers, api_key="hush") as endpoint:
        at = ("--tools", "tools.py", "--endpoint", endpoint.url, "--model", "scripted")
        assert place.do("submit", "count the letters", *at, "--task-id", "t").returncode == 0
        with place.worker("--tools", "tools.py", "--endpoint", endpoint.url, "--model", "other"):
            place.do("submit", *BY_STEPS, "--task-id", "plain")
            assert place.do("tasks", "watch", "plain").returncode == 0
            assert "has the model 'scripted'" in place.do("tasks", "show", "t").stdout
            assert endpoint.calls == {}
            with place.worker(*at, APP_LLM_API_KEY="hush"):
                watched = place.do("tasks", "watch", "t")
                assert (watched.returncode, watched.stdout.strip()) == (0, "seven"), watched.stderr
        assert endpoint.calls == {"execution_plan": 1, "evaluation": 1}


def test_a_fork_that_asks_about_less_than_the_workers_is_driven_here(place: Place) -> None:
    place.plan(one_step("add", a=1, b=2))
    place.do("submit", *BY_STEPS, "--task-id", "t")
    with place.worker("--tools", "tools.py"):
        assert place.do("tasks", "watch", "t").returncode == 0
    strict = {"APP_APPROVAL_MODE": "all"}
    with place.worker("--tools", "tools.py", **strict):
        fork = ("tasks", "fork", "t", "--at", "2", "--task-id", "f", "--approve", "never")
        forked = place.do(*fork, **strict)
        assert (forked.returncode, forked.stdout.strip()) == (0, "3"), forked.stderr


@pytest.mark.parametrize("stands", ["queued", "paused"])
def test_a_queued_task_goes_on_here_with_what_is_given_to_the_command(place: Place, stands: str) -> None:
    (place.path / "moved.py").write_text((place.path / "tools.py").read_text())
    place.plan(one_step("add", a=1, b=2))
    place.do("submit", *BY_STEPS, "--task-id", "t", "--approve", "all", "--no-interactive")
    (place.path / "tools.py").unlink()
    if stands == "paused":
        assert place.do("tasks", "pause", "t").returncode == 0
    ended = place.do("tasks", "resume", "t", "--tools", "moved.py", "--approve", "never")
    assert (ended.returncode, ended.stdout.strip()) == (0, "3"), ended.stderr
    with place.worker("--tools", "moved.py"):  # what still waits for one comes to nothing
        assert place.do("tasks", "result", "t").stdout.strip() == "3"


def test_a_fork_with_another_model_is_taken_by_a_worker_that_has_it_or_is_driven_here(place: Place) -> None:
    place.plan(one_step("add", a=1, b=2))
    judged = {"evaluation": JUDGED}
    with ScriptedEndpoint(judged) as endpoint, place.worker("--tools", "tools.py"):
        place.do("submit", *BY_STEPS, "--task-id", "t")
        assert place.do("tasks", "watch", "t").returncode == 0
        at = ("--endpoint", endpoint.url, "--model", "scripted")
        fork = ("tasks", "fork", "t", "--evaluation", "model", "--judge")
        stored = place.do(*fork, *at, "--task-id", "f", "--detach")
        assert stored.stdout.strip() == "f", stored.stderr
        assert "tasks watch f" in stored.stderr
        assert "has the model 'scripted'" in place.do("tasks", "show", "f").stdout
        refused = place.do(*fork, *at, "--task-id", "g", "--detach", "--api-key", "a-key")
        assert (refused.returncode, place.do("tasks", "show", "g").returncode) == (2, 2)
        assert endpoint.calls == {}
        here = place.do(*fork, *at, "--task-id", "h")
        assert (here.returncode, endpoint.calls) == (0, {"evaluation": 1}), here.stderr
        with place.worker("--tools", "tools.py", *at):
            watched = place.do("tasks", "watch", "f")
            assert (watched.returncode, endpoint.calls) == (0, {"evaluation": 2}), watched.stderr


def test_options_for_a_task_that_a_worker_drives_are_refused_and_said_to_be(place: Place) -> None:
    place.plan(one_step("wait_for_ever"))
    with place.worker("--tools", "tools.py", "--grace", "0"):
        place.do("submit", *BY_STEPS, "--task-id", "t")
        with place.follow("tasks", "watch", "t", "--events") as follower:
            next(line for line in follower.stdout if "call_started" in line)
            refused = place.do("tasks", "resume", "t", "--tools", "tools.py")
            assert refused.returncode == 2
            assert "is being driven by another process" in refused.stderr
            place.do("tasks", "cancel", "t")
            follower.communicate(timeout=60)


def test_answers_have_a_worker_go_on(place: Place) -> None:
    place.plan(one_step("add", a=1, b=2))
    with place.worker("--tools", "tools.py", "--concurrency", "1"):
        place.do("submit", *BY_STEPS, "--task-id", "t", "--approve", "all")
        waiting = place.do("tasks", "watch", "t")
        assert waiting.returncode == 5, waiting.stderr
        said = place.do("tasks", "approve", "t")
        assert "approved" in said.stderr
        ended = place.do("tasks", "resume", "t")
        if ended.returncode == 2:  # the worker was faster
            assert "has ended" in ended.stderr or "is being driven by a worker" in ended.stderr
        assert place.do("tasks", "watch", "t").stdout.strip() == "3"


def test_a_worker_lets_a_task_end_at_sigterm(place: Place, postgres_server: PostgresServer) -> None:
    place.plan(one_step("wait_for_ever"))
    with place.worker("--tools", "tools.py", "--grace", "0.1") as process:
        place.do("submit", *BY_STEPS, "--task-id", "t")
        with place.follow("tasks", "watch", "t") as follower:
            next(line for line in follower.stderr if "only started" in line)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            place.do("tasks", "cancel", "t")
            follower.communicate(timeout=60)
            assert follower.returncode == 3
    left = postgres_server.sql("SELECT count(*) FROM replan.worker", database=place.address.rsplit("/", 1)[1])
    assert left == "0\n"


def test_a_worker_and_a_deliverer_wait_for_a_database_that_is_started_after_them(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    server = PostgresServer()
    try:
        server.stop()
        place = Place(tmp_path, server.url())
        with (
            place.follow("worker", "--tools", "tools.py") as worker,
            place.follow("outbox", "write", "log.jsonl") as deliverer,
            place.follow("worker", "--tools", "tools.py") as unlucky,
        ):
            for process in (worker, deliverer, unlucky):
                said = process.stderr.readline()
                assert "waiting for the database: the database postgresql://127.0.0.1:" in said, said
                assert "Connection refused" in said
            unlucky.send_signal(signal.SIGTERM)
            _, told = unlucky.communicate(timeout=60)
            assert (unlucky.returncode, told.endswith("INFO stopped\n")) == (0, True)
            server.start()
            assert worker.stdout.readline() == "taking tasks of all queues, with 5 tools\n"
            assert place.do("run", *BY_STEPS, "--task-id", "t").stdout == "7\n"
            written = place.path / "log.jsonl"
            while not (written.exists() and '"task_completed"' in written.read_text()):
                time.sleep(0.05)
            for process in (worker, deliverer):
                process.send_signal(signal.SIGTERM)
                _, told = process.communicate(timeout=60)
                assert (process.returncode, told.endswith("stopped\n")) == (0, True)
    finally:
        server.close()


def test_the_log_of_a_worker_tells_what_becomes_of_each_task_where_and_when(place: Place) -> None:
    here = platform.node()
    place.plan(one_step("add", a=3, b=4))
    with place.follow("worker", "--tools", "tools.py", "--log-format", "json") as worker:
        assert worker.stdout.readline()
        assert place.do("run", *BY_STEPS, "--task-id", "well").returncode == 0
        place.do("submit", *BY_STEPS, "--task-id", "lacks", "--secret", "pin=env:NOWHERE", NOWHERE="1")
        place.do("submit", *BY_STEPS, "--task-id", "asks", "--approve", "all")
        lines = []
        while not {"given_back", "waits"} <= {line.get("did") for line in lines}:
            lines.append(json.loads(worker.stderr.readline()))
        worker.send_signal(signal.SIGTERM)
        _, rest = worker.communicate(timeout=60)
    lines += [json.loads(line) for line in rest.splitlines()]
    assert {(line["host"], line["pid"]) for line in lines} == {(here, worker.pid)}
    told = {(line.get("task_id"), line.get("did")): line for line in lines}
    assert told["well", "ended"]["status"] == "succeeded"
    assert {("well", "taken"), ("asks", "taken"), ("asks", "waits")} <= told.keys()
    assert "NOWHERE" in told["lacks", "given_back"]["message"]
    assert told["lacks", "given_back"]["level"] == "warning"
    assert all(line["time"].endswith("Z") for line in lines)
    started = [json.loads(line) for line in place.do("tasks", "show", "well", "--events").stdout.splitlines()]
    drivers = [one["data"]["driver"] for one in started if one["type"] == "task_started"]
    assert drivers == [f"process {worker.pid} on {here}"], "the log of a task names the host, too"


def test_a_worker_does_not_wait_for_what_cannot_come(place: Place) -> None:
    done = place.do("worker", APP_DATABASE_SERVICE_CONNECTION_STRING="postgresql://[nowhere")
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("taken", [True, False])
def test_ctrl_c_at_a_task_that_is_followed_cancels_it_whether_a_worker_has_it_or_not(
    place: Place, taken: bool
) -> None:
    place.plan(one_step("wait_for_ever"))
    with (
        place.worker(*(("--tools", "tools.py") if taken else ())),
        place.follow("run", *BY_STEPS, "--task-id", "t") as follower,
    ):
        next(line for line in follower.stderr if ("only started" if taken else "no worker has taken") in line)
        follower.send_signal(signal.SIGINT)
        _, told = follower.communicate(timeout=60)
        assert follower.returncode == 3, told
    assert "cancelled" in place.do("tasks", "show", "t").stdout


@pytest.mark.parametrize(
    ("command", "number"),
    [("run", signal.SIGHUP), ("run", signal.SIGTERM), ("resume", signal.SIGINT), ("resume", signal.SIGHUP)],
)
def test_a_follower_that_is_ended_otherwise_leaves_the_task_to_its_worker(
    place: Place, command: str, number: signal.Signals
) -> None:
    place.plan(one_step("wait_for_ever"))
    args = ("run", *BY_STEPS, "--task-id", "t")
    if command == "resume":
        place.do("submit", *BY_STEPS, "--task-id", "t")
        args = ("tasks", "resume", "t")
    with place.follow(*args) as follower, contextlib.ExitStack() as workers:
        if command == "resume":  # one that is taken already is refused
            next(line for line in follower.stderr if "no worker has taken" in line)
        workers.enter_context(place.worker("--tools", "tools.py"))
        next(line for line in follower.stderr if "only started" in line)
        follower.send_signal(number)
        _, told = follower.communicate(timeout=60)
        assert follower.returncode == 130, told
        assert "replan tasks cancel t" in told
        assert place.do("tasks", "list", "--status", "executing").stdout.startswith("t ")
        place.do("tasks", "cancel", "t")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_task_for_workers_that_this_command_drives_is_left_to_nobody(
    place: Place, number: signal.Signals
) -> None:
    place.plan(one_step("wait_for_ever"))
    place.do("submit", *BY_STEPS, "--task-id", "t")
    with place.follow("tasks", "resume", "t", "--tools", "tools.py") as driver:
        next(line for line in driver.stderr if "only started" in line)
        driver.send_signal(number)
        _, told = driver.communicate(timeout=60)
    assert (driver.returncode, "left to who drives it" in told) == (3, False), told
    assert place.do("tasks", "list", "--status", "cancelled").stdout.startswith("t ")


@pytest.mark.parametrize(
    ("args", "env", "words"),
    [
        (("submit", *BY_STEPS), {"APP_ENGINE_KIND": "local"}, 'kind = "procrastinate"'),
        (("submit", *BY_STEPS, "--db", "log.db"), {}, "PostgreSQL"),
        (("worker", "--db", "log.db"), {}, "PostgreSQL"),
        (("submit", *BY_STEPS, "--queue", "a:b"), {}, "none of them a colon"),
        (("run", *BY_STEPS, "--api-key", "env:KEY"), {"KEY": "hush"}, "its own key"),
    ],
)
def test_what_cannot_be_is_said(place: Place, args: tuple[str, ...], env: dict[str, str], words: str) -> None:
    done = place.do(*args, **env)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr


def test_several_paused_tasks_go_on_with_workers_without_being_followed(place: Place) -> None:
    place.plan(one_step("add", a=3, b=4))
    for name in ("a", "b", "c"):
        assert place.do("submit", *BY_STEPS, "--task-id", name, "--approve", "all").returncode == 0
    paused = place.do("tasks", "pause", "a", "b")
    assert (paused.returncode, paused.stderr.count("replan tasks resume")) == (0, 2)
    with place.worker("--tools", "tools.py"):
        assert place.do("tasks", "watch", "c").returncode == 5
        shown = place.do("tasks", "show", "c").stdout
        assert "then a worker goes on with it" in shown
        assert "replan tasks resume" not in shown
        assert "then a worker goes on with it" in place.do("tasks", "result", "c").stderr
        rows = json.loads(place.do("tasks", "list", "--waiting-for", "pause", "--json").stdout)
        assert {row["task_id"] for row in rows} == {"a", "b"}
        assert "to go on with it: replan tasks resume a" in place.do("tasks", "show", "a").stdout

        resumed = place.do("tasks", "resume", "a", "b", "--detach", "--by", "Ann")
        assert (resumed.returncode, resumed.stderr.count("a worker goes on with it")) == (0, 2), (
            resumed.stderr
        )
        for name in ("a", "b"):
            assert place.do("tasks", "watch", name).returncode == 5, "it asks"
        local = place.do("tasks", "resume", "a", "--detach", APP_ENGINE_KIND="local")
        assert (local.returncode, "nobody else drives tasks here" in local.stderr) == (2, True)
        gone = place.do("tasks", "cancel", "--waiting-for", "person", "--yes")
        assert gone.stderr.count("c") >= 3
        for name in ("a", "b", "c"):
            assert place.do("tasks", "watch", name).returncode == 3
        once_more = place.do("submit", *BY_STEPS, "--task-id", "a", "--approve", "all")
        assert "a is there already, and has ended (cancelled): replan tasks result a" in once_more.stderr
