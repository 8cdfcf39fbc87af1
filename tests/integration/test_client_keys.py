"""Clients and the command with a key: whose tasks they see, what they may not, and that the key is shown nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_process import replan
from service_process import Service, serving, step

from replan.client import Client
from replan.errors import NotAllowed, NotSignedIn, TaskNotFound

pytestmark = pytest.mark.anyio

DB = ("--db", "sqlite:///tasks.db")
ROME = {"steps": [step("s1", "weather", city="Rome")]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("keys"), env={"APP_SERVER_AUTH": "keys"}) as running:
        yield running


def _key(service: Service, name: str, *more: str) -> str:
    done = replan("keys", "create", "--name", name, *more, *DB, cwd=service.folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_a_key_says_whose_tasks_they_are_and_what_may_be_done(service: Service) -> None:
    acme, globex = _key(service, "a", "--tenant", "acme"), _key(service, "g", "--tenant", "globex")
    reads = _key(service, "r", "--tenant", "acme", "--scope", "read")
    async with (
        Client(service.url, api_key=acme) as ours,
        Client(service.url, api_key=globex) as theirs,
        Client(service.url, api_key=lambda: reads) as reader,
        Client(service.url, api_key="rpk_none", patience_secs=1) as nobody,
        Client(service.url, patience_secs=1) as keyless,
    ):
        task_id = await ours.submit("Weather", plan=ROME, evaluation="steps", task_id="w")
        assert task_id == "acme:w"
        assert (await ours.wait("w")).succeeded
        assert [one.type async for one in reader.watch("w")][-1] == "task_completed"
        assert [one.task_id for one in await theirs.tasks()] == []
        for call in (theirs.task("w"), theirs.wait(task_id), theirs.cancel(task_id), theirs.history("w")):
            with pytest.raises(TaskNotFound):
                await call
        with pytest.raises(TaskNotFound):
            await anext(theirs.watch(task_id))
        with pytest.raises(NotAllowed, match="run"):
            await reader.cancel("w")
        for stranger in (nobody, keyless):
            with pytest.raises(NotSignedIn):
                await stranger.tasks()
            with pytest.raises(NotSignedIn):
                await anext(stranger.watch(task_id))


def test_the_command_has_its_key_from_the_environment_or_a_file_and_shows_it_nowhere(
    service: Service, tmp_path: Path
) -> None:
    key = _key(service, "command", "--tenant", "ops")
    (tmp_path / "key").write_text(f"{key}\n")
    (tmp_path / "rome.json").write_text(json.dumps(ROME))
    run = ("run", f"Say {key}", "--plan", "rome.json", "--evaluation", "steps")
    for given in (key, "env:OTHER", f"file:{tmp_path / 'key'}"):
        env = {"REPLAN_SERVER": service.url, "REPLAN_API_KEY": given, "OTHER": key}
        done = replan(*run, cwd=tmp_path, env=env)
        assert (done.returncode, json.loads(done.stdout)["degrees"]) == (0, 4), done.stderr
        assert key not in done.stderr
        assert key not in replan("tasks", "list", cwd=tmp_path, env=env).stdout
    for given, said in (("", "does not know who calls"), ("file:nowhere", "cannot be read")):
        refused = replan(
            "tasks", "list", cwd=tmp_path, env={"REPLAN_SERVER": service.url, "REPLAN_API_KEY": given}
        )
        assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
