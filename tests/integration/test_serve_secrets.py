"""Secrets that only the process had which took the request: after its end the task says that it waits for them, and goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from access_world import Held
from pydantic import SecretStr
from service_here import Here, service_here
from service_process import plan, step

from replan import Replan
from replan.client import Client
from replan.errors import SecretsMissing
from replan.testing import FakeTool

pytestmark = pytest.mark.anyio
TOKEN = {"type": "object", "properties": {"token": {"type": "string", "format": "password"}}}
BODY = {
    **plan(step("a", "hold"), step("b", "login", "a", token="${metadata.token}")),
    "task_id": "t",
    "secrets": {"token": "s3cret-7f1a"},
}


def source() -> Held:
    return Held({"login": FakeTool(output="in", effect="once", parameters=TOKEN)})


async def left_behind(folder: Path) -> None:
    """The task, begun by a service that has ended."""
    tools = source()
    async with service_here(folder, tools=[tools]) as first, asked(first) as http:
        assert (await http.post("/tasks", json=BODY)).status_code == 202
        await tools.entered.wait()


def asked(here: Here) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=f"{here.url}/api/v1", timeout=30.0, trust_env=False)


async def stands(http: httpx2.AsyncClient) -> dict[str, Any]:
    """What it waits for, once its log says so."""
    answer = await http.get("/tasks/t/result", params={"wait": 20})
    assert (answer.status_code, answer.json()["task_status"]) == (409, "waiting"), answer.text
    (found,) = (await http.get("/tasks/t")).json()["waiting_for"]
    return dict(found)


async def test_it_is_said_wherever_one_looks_what_the_task_waits_for(tmp_path: Path) -> None:
    await left_behind(tmp_path)
    async with service_here(tmp_path, tools=[source()]) as second, asked(second) as http:
        found = await stands(http)
        assert (found["kind"], found["secrets"]) == ("key", ["token"])
        assert "submitting the same request once more" in found["text"]
        (listed,) = (await http.get("/waiting")).json()["items"]
        assert (listed["task_id"], listed["waiting_for"]) == ("t", found)
        (told,) = await second.replan.service.cannot_go_on()
        assert (told.task_id, told.kind) == ("t", "secrets")
    async with service_here(tmp_path, tools=[source()]) as third, asked(third) as http:
        last = (await http.get("/tasks/t")).json()["last_seq"]
        assert await stands(http) == found
        assert (await http.get("/tasks/t")).json()["last_seq"] == last, "it is said once"


async def test_a_process_that_has_not_what_a_secret_is_read_from_says_so_and_another_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, steps, tools = tmp_path / "tasks.db", BODY["options"]["plan"], source()
    monkeypatch.setenv("TOKEN_OF_TEST", "s3cret-7f1a")
    async with Replan(db=db, tools=[tools], evaluation="steps") as first:
        await first.submit("do it", task_id="t", plan=steps, secrets={"token": "env:TOKEN_OF_TEST"})
        await tools.entered.wait()
    monkeypatch.delenv("TOKEN_OF_TEST")
    async with Replan(db=db, tools=[source()], evaluation="steps") as second:
        for _ in range(2):  # as often as the queue hands it out
            with pytest.raises(SecretsMissing, match="the environment has no TOKEN_OF_TEST"):
                await second.service.check_resumable("t")
            assert await second.service.stands_without_secrets("t")
        logged = [one.type for one in await second.history("t")]
        assert (logged[-1], logged.count("task_waiting")) == ("task_waiting", 1)
        (waits,) = (await second.result("t")).waiting_for
        assert (waits.kind, waits.secrets) == ("key", ("token",))
    monkeypatch.setenv("TOKEN_OF_TEST", "s3cret-7f1a")
    tools = source()
    tools.let_go.set()
    async with Replan(db=db, tools=[tools], evaluation="steps") as third:
        assert not await third.service.stands_without_secrets("t")
        assert (await third.resume("t")).succeeded
    assert [call.parameters for call in tools.effects] == [{"token": "s3cret-7f1a"}]


async def test_what_waits_for_a_yes_meanwhile_is_asked_for_its_secrets_once_it_has_one(
    tmp_path: Path,
) -> None:
    login = {**step("b", "login", token="${metadata.token}"), "requires_approval": True}
    async with service_here(tmp_path, tools=[source()]) as first, asked(first) as http:
        assert (await http.post("/tasks", json={**BODY, **plan(login)})).status_code == 202
        assert (await http.get("/tasks/t/result", params={"wait": 20})).status_code == 409
        assert await first.replan.service.cannot_go_on() == [], "it has them still"
    tools = source()
    async with service_here(tmp_path, tools=[tools]) as second, asked(second) as http:
        (waits,) = (await http.get("/waiting")).json()["items"]
        answer = {"approved": True, "hash": waits["hash"]}
        said = await http.post(f"/tasks/t/approvals/{waits['waiting_for']['id']}", json=answer)
        assert (said.status_code, said.json()["waiting_for"][0]["secrets"]) == (200, ["token"]), said.text
        assert (await http.post("/tasks/t/resume", json={"secrets": BODY["secrets"]})).status_code == 200
        done = await http.get("/tasks/t/result", params={"wait": 20})
        assert done.json().get("is_success") is True, done.text
    assert [call.parameters for call in tools.effects] == [{"token": "s3cret-7f1a"}]


@pytest.mark.parametrize("way", ["resumed", "the same request", "by a client"])
async def test_it_goes_on_at_once_with_what_is_given_again(tmp_path: Path, way: str) -> None:
    await left_behind(tmp_path)
    tools = source()
    tools.let_go.set()
    async with service_here(tmp_path, tools=[tools]) as second, asked(second) as http:
        await stands(http)
        match way:
            case "resumed":
                without = await http.post("/tasks/t/resume", json={})
                assert (without.status_code, without.json()["secrets"]) == (409, ["token"])
                wrong = await http.post("/tasks/t/resume", json={"secrets": {"password": "x"}})
                assert (wrong.status_code, "it has: token" in wrong.json()["detail"]) == (422, True)
                given = await http.post("/tasks/t/resume", json={"secrets": BODY["secrets"]})
                assert given.status_code == 200, given.text
            case "the same request":
                assert (await http.post("/tasks", json=BODY)).json()["new"] is False
            case _:
                async with Client(second.url) as client:
                    with pytest.raises(SecretsMissing) as missing:
                        await client.hand_on("t")
                    assert missing.value.names == ("token",)
                    await client.hand_on("t", secrets={"token": SecretStr("s3cret-7f1a")})
        done = await http.get("/tasks/t/result", params={"wait": 20})
        assert done.json()["is_success"] is True, done.text
        page = await http.get("/tasks/t/events?limit=500", headers={"accept": "application/json"})
        assert "s3cret-7f1a" not in page.text
    assert [call.parameters for call in tools.effects if call.tool_id == "login"] == [
        {"token": "s3cret-7f1a"}
    ]


SOON = {**plan(step("b", "login", token="${metadata.token}")), "task_id": "t", "secrets": BODY["secrets"]}
SAID = {"task_id": "f", "hint": "try s3cret-7f1a", "reason": "as s3cret-7f1a was wrong"}


def holding(folder: Path, secret: bytes) -> list[Path]:
    """The files in which it stands."""
    return [file for file in folder.rglob("*") if file.is_file() and secret in file.read_bytes()]


async def test_a_fork_is_not_stored_without_the_secrets_that_nobody_has_any_more(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=[source()]) as here, asked(here) as http:
        assert (await http.post("/tasks", json=SOON)).status_code == 202
        assert (await http.get("/tasks/t/result", params={"wait": 20})).json()["status"] == "succeeded"
        for _ in range(2):
            answer = await http.post("/tasks/t/fork", json=SAID)
            assert (answer.status_code, answer.json()["secrets"]) == (409, ["token"])
            assert "as `secrets`; nothing is stored without" in answer.json()["detail"]
        assert [one["task_id"] for one in (await http.get("/tasks")).json()["items"]] == ["t"]
        wrong = await http.post("/tasks/t/fork", json={**SAID, "secrets": {"other": "x"}})
        assert (wrong.status_code, (await http.get("/tasks/f")).status_code) == (422, 404)


@pytest.mark.parametrize("way", ["http", "client"])
async def test_what_is_said_with_a_fork_is_stored_without_the_secrets_that_are_given_with_it(
    tmp_path: Path, way: str
) -> None:
    tools = source()
    async with service_here(tmp_path, tools=[tools]) as here, asked(here) as http:
        assert (await http.post("/tasks", json=SOON)).status_code == 202
        assert (await http.get("/tasks/t/result", params={"wait": 20})).json()["status"] == "succeeded"
        again = {**SAID, "secrets": BODY["secrets"]}
        if way == "http":
            answer = await http.post("/tasks/t/fork", json=again)
            assert answer.status_code == 202, answer.text
        else:
            async with Client(here.url) as client:
                said = {"hint": SAID["hint"], "reason": SAID["reason"]}
                assert (
                    await client.fork("t", fork_id="f", secrets={"token": SecretStr("s3cret-7f1a")}, **said)
                    == "f"
                )
        assert (await http.get("/tasks/f/result", params={"wait": 20})).json()["status"] == "succeeded"
        log = (await http.get("/tasks/f/events", params={"limit": 500})).text
        assert "task_forked" in log
        assert "s3cret-7f1a" not in log
        sent_again = await http.post("/tasks/t/fork", json=again)
        assert (sent_again.status_code, sent_again.json()["new"]) == (202, False)
    assert holding(tmp_path, b"s3cret-7f1a") == []


async def test_a_fork_of_the_library_takes_its_secrets_too(tmp_path: Path) -> None:
    async with Replan(db=str(tmp_path / "tasks.db"), tools=[source()]) as replan:
        task_id = await replan.submit(
            "t", plan=SOON["options"]["plan"], evaluation="steps", secrets={"token": SecretStr("s3cret-7f1a")}
        )
        assert (await replan.wait(task_id)).is_success
        with pytest.raises(SecretsMissing) as caught:
            await replan.fork(task_id, fork_id="f")
        assert caught.value.names == ("token",)
        made = await replan.fork(task_id, hint="try s3cret-7f1a", secrets={"token": SecretStr("s3cret-7f1a")})
        assert (await replan.wait(made)).is_success
        assert "s3cret-7f1a" not in str(await replan.history(made))
        assert {row.task_id for row in await replan.tasks()} == {task_id, made}
