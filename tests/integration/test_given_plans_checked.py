"""A plan that is given is checked before its task is stored, by whatever way it comes."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
from access_world import PLAIN, world
from grpc_world import serving, task
from mcp_world import offering
from service_here import service_here

from replan import Replan, tool
from replan.client import Client
from replan.core.types import JsonObject
from replan.errors import PlanInvalid, TaskExists
from replan.ports import Ids
from replan.run.access.callers import LOCAL
from replan.run.access.requests import SubmitOptions, SubmitRequest
from replan.run.service.submission import check_submission

pytestmark = pytest.mark.anyio
WRONG: list[tuple[JsonObject, str]] = [
    ({"steps": 1}, "steps"),
    ({"steps": [1]}, "step"),
    ({"steps": [{"step_id": "a", "tool": "nope"}]}, "nope"),
    ({"steps": [{"step_id": "a", "tool": "look", "dependencies": ["a"]}]}, "'a'"),
    ({"steps": [{"step_id": "a", "tool": "look", "parameters": {"number": "x"}}]}, "number"),
    ({"steps": [{"step_id": "a", "tool": "look", "parameters": {"number": "${nobody.output}"}}]}, "nobody"),
    ({"steps": []}, "no steps"),
]


@tool(effect="reads")
def look(number: int = 1) -> int:
    return number


@pytest.mark.parametrize(("given", "named"), WRONG)
async def test_the_library_raises_and_stores_nothing(tmp_path: Path, given: JsonObject, named: str) -> None:
    async with Replan(tools=[look], db=tmp_path / "log.db", evaluation="steps") as replan:
        for begin in (replan.run, replan.submit):
            with pytest.raises(PlanInvalid) as caught:
                await begin("do it", plan=given)
            assert any(named in one for one in caught.value.violations), caught.value.violations
        assert await replan.tasks() == []


async def test_the_service_answers_422_with_all_that_is_wrong(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=[look]) as here:
        async with httpx2.AsyncClient(base_url=f"{here.url}/api/v1", trust_env=False) as http:
            for given, named in WRONG:
                body = {"task_description": "do it", "options": {"plan": given}}
                refused = await http.post("/tasks", json=body)
                assert (refused.status_code, refused.json()["type"]) == (
                    422,
                    "urn:replan:problem:plan-invalid",
                )
                assert any(named in one for one in refused.json()["violations"])
            none = await http.post(
                "/tasks", json={"task_description": "do it", "options": {"timeout_secs": 0}}
            )
            assert (none.status_code, none.json()["problems"][0]["where"]) == (
                422,
                "body.options.timeout_secs",
            )
            assert (await http.get("/tasks")).json()["items"] == []
        async with Client(here.url) as client:
            with pytest.raises(PlanInvalid) as caught:
                await client.submit("do it", plan=WRONG[2][0])
            assert any("nope" in one for one in caught.value.violations)


async def test_so_it_is_over_grpc_and_mcp(tmp_path: Path) -> None:
    async with serving(tmp_path) as there:
        for given, named in WRONG[:4]:
            refused = await there.refused(_submitted(there, task(given)))
            assert (refused.code, refused.reason) == ("INVALID_ARGUMENT", "PLAN_INVALID")
            assert named in refused.message
        assert not (await there.call("ListTasks")).items
    async with offering(_folder(tmp_path)) as other:
        for given, named in WRONG[:4]:
            for name in ("run_task", "submit_task"):
                options = {"plan": given, "evaluation": "steps"}
                assert named in await other.refused(name, task="do it", options=options)
        assert (await other.call("list_tasks"))["items"] == []


def _folder(under: Path) -> Path:
    made = under / "mcp"
    made.mkdir()
    return made


def _submitted(there: Any, message: Any) -> Any:
    return there.channel.unary_unary(
        "/replan.v1.TaskService/SubmitTask", type(message).SerializeToString, lambda data: data
    )(message)


async def test_what_was_accepted_once_stays_so_whatever_tools_there_are(tmp_path: Path) -> None:
    request = SubmitRequest(
        task_description="do it", task_id="t", options=SubmitOptions(plan=PLAIN, evaluation="steps")
    )
    async with world(tmp_path / "log.db") as there:
        assert (await there.cases.submit(LOCAL, request)).new
    async with Replan(tools=[], db=tmp_path / "log.db") as bare:
        driver = bare.serving()
        same = await driver.request(request, tenant="", by="local")
        assert await bare.service.submit(same, check_plan=True) == ("t", False)
        other = request.model_copy(update={"task_description": "something else"})
        wanted = await driver.request(other, tenant="", by="local")
        with pytest.raises(TaskExists):
            await bare.service.submit(wanted, check_plan=True)
        with pytest.raises(PlanInvalid):
            await bare.service.submit(wanted._replace(task_id="t2"), check_plan=True)


class Counting:
    """Ids, and how many of each kind there were."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.made: Counter[str] = Counter()

    def new(self, prefix: str) -> str:
        self.made[prefix] += 1
        return self._ids.new(prefix)


@pytest.mark.parametrize(("mode", "checks"), [("never", 1), ("all", 2)])
async def test_who_drives_it_at_once_checks_it_again_only_where_something_is_otherwise(
    tmp_path: Path, mode: str, checks: int
) -> None:
    async with world(tmp_path / "log.db") as there:
        parts = there.replan.service.parts
        ids = parts.ids = Counting(parts.ids)
        wanted = await there.replan.serving().request(
            SubmitRequest(task_description="do it", options=SubmitOptions(plan=PLAIN, evaluation="steps")),
            tenant="",
            by="local",
        )
        size = check_submission(wanted)
        task_id, _ = await there.replan.service.submit(wanted, size, check_plan=True)
        parts.approval = mode
        state = await there.replan.service.drive(task_id)
        assert state.status == ("succeeded" if mode == "never" else "waiting")
        assert ids.made["plan"] == checks


async def test_the_same_request_at_two_processes_at_once_is_one_task_ended_or_not(tmp_path: Path) -> None:
    async with world(tmp_path / "log.db") as one, world(tmp_path / "log.db") as two:
        for number in range(25):
            request = SubmitRequest(
                task_description="do it",
                task_id=f"t{number}",
                options=SubmitOptions(plan=PLAIN, evaluation="steps"),
            )
            found = await asyncio.gather(
                *[where.cases.submit(LOCAL, request) for where in (one, two, one, two)]
            )
            assert {each.task_id for each in found} == {f"t{number}"}
            assert sum(each.new for each in found) == 1
            again = await two.cases.submit(LOCAL, request)  # it is about to end, or has
            assert not again.new
            await one.replan.wait(f"t{number}")
            assert (await two.cases.submit(LOCAL, request)).status == "succeeded"
        assert len(one.source.calls) + len(two.source.calls) == 25
