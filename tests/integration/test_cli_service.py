"""The command against a service: the same words, output and exit codes as on a database."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_process import going_on, replan
from service_process import Service, serving, step

ROME = {"steps": [step("s1", "weather", city="Rome")]}
PAYS = {"steps": [step("s1", "weather", city="Rome"), step("s2", "pay", "s1", amount=7)]}
FAILS = {"steps": [step("s1", "weather", city="Rome"), step("s2", "fail", "s1", why="no such invoice")]}
WAITS = {"steps": [step("s1", "until", name="never")]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


class Place:
    """A folder where the command is given, with plans."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder = folder
        self.service = service
        for name, wanted in (("rome", ROME), ("pays", PAYS), ("fails", FAILS), ("waits", WAITS)):
            (folder / f"{name}.json").write_text(json.dumps(wanted))

    def __call__(self, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return replan(*args, cwd=self.folder, env={"REPLAN_SERVER": self.service.url, **(env or {})})

    def run(self, name: str, *args: str) -> subprocess.CompletedProcess[str]:
        return self("run", "Do it", "--plan", f"{name}.json", "--evaluation", "steps", *args)


@pytest.fixture
def here(tmp_path: Path, service: Service) -> Place:
    return Place(tmp_path, service)


def test_a_task_runs_there_and_its_answer_comes_here(here: Place) -> None:
    done = here.run("rome")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"city": "Rome", "degrees": 4})
    assert "s1 done" in done.stderr
    told = json.loads(here.run("rome", "--json").stdout)
    assert (told["status"], told["output"]) == ("succeeded", {"city": "Rome", "degrees": 4})
    assert told["steps"][0]["status"] == "succeeded"
    kinds = [json.loads(line)["type"] for line in here.run("rome", "--events").stdout.splitlines()]
    assert (kinds[0], kinds[-1]) == ("task_submitted", "task_completed")
    assert json.loads(here.run("rome", "--plan-only").stdout)["steps"][0]["tool"] == "weather"


def test_the_option_means_the_same_as_the_environment(tmp_path: Path, service: Service) -> None:
    done = replan("tasks", "list", "--server", service.url, "--json", cwd=tmp_path)
    assert (done.returncode, type(json.loads(done.stdout))) == (0, list)


def test_a_person_answers_from_the_command(here: Place) -> None:
    waits = here.run("pays", "--interactive", "--task-id", "pays")
    assert waits.returncode == 5
    assert "then the service goes on with it" in waits.stderr
    assert 'pay({"amount": 7})' in here("tasks", "approve", "pays", "--show").stdout
    assert "pays" in here("tasks", "list", "--waiting-for", "person").stdout
    assert here("tasks", "result", "pays").returncode == 5
    agreed = here("tasks", "approve", "pays")
    assert agreed.returncode == 0
    assert "the service goes on with it" in agreed.stderr
    assert here("tasks", "watch", "pays", "--quiet").returncode == 0
    assert json.loads(here("tasks", "result", "pays").stdout) == {"paid": 7}
    late = here("tasks", "approve", "pays")
    assert (late.returncode, "no open approval" in late.stderr) == (2, True)


def test_a_no_and_its_reason_reach_the_task(here: Place) -> None:
    here.run("pays", "--interactive", "--task-id", "refused")
    assert here("tasks", "reject", "refused", "--reason", "too much").returncode == 0
    assert here("tasks", "watch", "refused", "--quiet").returncode == 1
    assert "too much" in here("tasks", "show", "refused").stdout


def test_a_failure_is_shown_and_forked(here: Place) -> None:
    failed = here.run("fails", "--task-id", "fails")
    assert failed.returncode == 1
    assert "no such invoice" in failed.stderr
    assert "no such invoice" in here("tasks", "show", "fails").stdout
    assert here("tasks", "retry", "fails", "s2").returncode == 2  # it has ended
    forked = here("tasks", "fork", "fails", "--retry", "s2", "--task-id", "again", "--quiet")
    assert (forked.returncode, "again goes on from fails" in forked.stderr) == (1, True)
    made = here("tasks", "fork", "fails", "--judge", "--detach", "--json")
    assert here("tasks", "watch", json.loads(made.stdout)["task_id"], "--quiet").returncode == 1
    shown = json.loads(here("tasks", "show", "again", "--json").stdout)
    assert "fails" in json.dumps(shown)


def test_tasks_are_stopped_and_go_on(here: Place) -> None:
    made = here("submit", "Wait", "--plan", "waits.json", "--evaluation", "steps", "--json")
    task_id = json.loads(made.stdout)["task_id"]
    assert here("tasks", "hint", task_id, "be quick").returncode == 0
    assert here("tasks", "pause", task_id, "--now").returncode == 0
    assert here("tasks", "watch", task_id, "--quiet").returncode == 5
    assert here("tasks", "resume", task_id, "--detach").returncode == 0
    assert here("tasks", "cancel", task_id, "--reason", "enough").returncode == 0
    assert here("tasks", "watch", task_id, "--quiet").returncode == 3
    assert here("tasks", "result", task_id).returncode == 3


def test_outputs_and_plans_are_read(here: Place) -> None:
    here.run("rome", "--task-id", "read-it")
    assert json.loads(here("tasks", "output", "read-it", "s1").stdout)["degrees"] == 4
    assert here("tasks", "output", "read-it", "s1", "--path", "degrees").stdout == "4\n"
    assert here("tasks", "output", "read-it", "s1", "-o", "out.json").returncode == 0
    assert json.loads((here.folder / "out.json").read_text())["city"] == "Rome"
    assert "flowchart" in here("tasks", "plan", "read-it", "--format", "mermaid").stdout
    assert here("tasks", "graph", "read-it", "--svg").stdout.startswith("<svg ")
    assert here("tasks", "show", "read-").returncode == 0  # the beginning of an id
    unknown = here("tasks", "show", "read-its")
    assert (unknown.returncode, "did you mean 'read-it'" in unknown.stderr) == (2, True)


def test_the_tools_of_the_service_are_listed(here: Place) -> None:
    names = [one["id"] for one in json.loads(here("tools", "list", "--json").stdout)]
    assert {"weather", "pay"} <= set(names)
    assert "a person has to agree to each call" in here("tools", "show", "pay").stdout
    here.run("rome")
    (row,) = json.loads(here("tools", "stats", "weather", "--json").stdout)
    assert (row["tool"], row["failures"]) == ("weather", 0)
    assert "weather" in here("tools", "stats").stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("tasks delete x", "acts on a database"),
        ("tasks prune --status failed", "acts on a database"),
        ("tasks export x", "acts on a database"),
        ("outbox list", "acts on a database"),
        ("run hello --tools tools.py", "--tools: a service has its own tools"),
        (
            "run hello --model openai:x --endpoint http://127.0.0.1:1",
            "--model, --endpoint: a service has its own",
        ),
        ("run hello --replay file", "--replay: a service has its own"),
        ("tasks resume x --model openai:x", "--model: a service has its own"),
        ("tasks approve x --by ann", "--by: a service knows itself who calls"),
        ("tasks list --server http://127.0.0.1:1 --db x.db", "exclude each other"),
        ("tasks list --server localhost", "no address of a service"),
    ],
)
def test_what_makes_no_sense_there_says_so(here: Place, command: str, said: str) -> None:
    refused = here(*shlex.split(command))
    assert refused.returncode == 2
    assert said in refused.stderr


def test_a_database_that_is_named_comes_before_the_environment(here: Place) -> None:
    refused = here("tasks", "list", "--db", "sqlite:///none.db")
    assert (refused.returncode, "there is no database" in refused.stderr) == (2, True)


def test_a_service_that_is_not_there_is_said_to_be_none(tmp_path: Path) -> None:
    done: Any = replan("tools", "list", "--server", "http://127.0.0.1:9", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("the service at http://127.0.0.1:9 cannot be reached") == 2
    assert "; tried again for" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 3), (signal.SIGTERM, 130)])
def test_a_command_that_is_interrupted_cancels_the_task_and_one_that_is_told_to_end_leaves_it(
    here: Place, number: int, code: int
) -> None:
    name = f"interrupted-{int(number)}"
    args = ("run", "Wait", "--plan", "waits.json", "--evaluation", "steps", "--task-id", name, "--events")
    with going_on(*args, cwd=here.folder, env={"REPLAN_SERVER": here.service.url}) as command:
        for line in command.stdout:
            if json.loads(line)["type"] == "call_started":
                break
        command.send_signal(number)
        _, told = command.communicate(timeout=60)
    assert command.returncode == code, told
    status = json.loads(here("tasks", "show", name, "--json").stdout)["status"]
    assert status == ("cancelled" if number == signal.SIGINT else "executing")
    if number == signal.SIGTERM:
        assert "the task is left to who drives it" in told
        assert here("tasks", "cancel", name).returncode == 0
