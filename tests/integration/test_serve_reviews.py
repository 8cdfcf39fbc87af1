"""A plan that waits for a person's yes, through every front end: shown with what it would do, agreed to, changed and refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from grpc_world import Grpc, pb, serving, task
from mcp_world import ERAS, accept, offering
from run_tasks import plan, step
from service_here import Here, service_here, service_on

from replan import Replan, tool
from replan.client import Client
from replan.config import Settings
from replan.core.types import JsonObject
from replan.errors import AnsweredBefore, InputError, PlanInvalid
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@tool(effect="once")
def send(to: str) -> str:
    """Write to somebody."""
    return f"sent to {to}"


def mail(whom: str) -> JsonObject:
    return plan(step("s", "send", parameters={"to": whom}))


HELD: JsonObject = {"plan": mail("Ann"), "evaluation": "steps", "review_plan": True}


async def submitted(here: Here, http: Any, **options: Any) -> str:
    made = await http.post(
        "/api/v1/tasks", json={"task_description": "do it", "options": {**HELD, **options}}
    )
    assert made.status_code == 202, made.text
    task_id: str = made.json()["task_id"]
    async for record in here.replan.watch(task_id):
        if record.type == "task_waiting":
            break
    return task_id


async def test_over_http_a_plan_is_shown_and_one_of_two_answers_counts(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=[send]) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False) as http,
    ):
        task_id = await submitted(here, http)
        (row,) = (await http.get("/api/v1/waiting")).json()["items"]
        assert (row["waiting_for"]["kind"], row["waiting_for"]["plan_version"]) == ("review", 1)
        (shown,) = (await http.get(f"/api/v1/tasks/{task_id}/waiting")).json()
        assert shown["hash"] == row["hash"]
        review = shown["review"]
        assert review["outlook"]["effects"] == ["s: send (once)"]
        assert review["plan"]["steps"][0]["parameters"] == {"to": "Ann"}
        where = f"/api/v1/tasks/{task_id}/plans/{review['version']}/review"
        assert (await http.post(where, json={"approved": True})).status_code == 422
        stale = await http.post(where, json={"approved": True, "hash": "other"})
        assert (stale.status_code, stale.json()["type"]) == (409, "urn:replan:problem:answered-before")
        elsewhere = where.replace("plans/1/", "plans/7/")
        assert (await http.post(elsewhere, json={"approved": False})).status_code == 404
        wrong = {"approved": True, "hash": shown["hash"], "plan": plan(step("s", "sned"), step("t", "send"))}
        refused = await http.post(where, json=wrong)
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:replan:problem:plan-invalid")
        assert "sned" in refused.text
        assert "'t'" in refused.text
        yes = {"approved": True, "hash": shown["hash"]}
        both = await asyncio.gather(*[http.post(where, json=yes) for _ in range(2)])
        assert sorted(one.status_code for one in both) == [200, 409]
        result = (await http.get(f"/api/v1/tasks/{task_id}/result?wait=20")).json()
        assert result["final_output"] == "sent to Ann"


async def test_over_http_another_plan_takes_its_place_and_the_difference_is_told(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=[send]) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False) as http,
    ):
        task_id = await submitted(here, http)
        (shown,) = (await http.get(f"/api/v1/tasks/{task_id}/waiting")).json()
        answer = {"approved": True, "hash": shown["hash"], "plan": mail("Eve"), "reason": "not to Ann"}
        assert (await http.post(f"/api/v1/tasks/{task_id}/plans/1/review", json=answer)).status_code == 200
        result = (await http.get(f"/api/v1/tasks/{task_id}/result?wait=20")).json()
        assert result["final_output"] == "sent to Eve"
        first, second = (await http.get(f"/api/v1/tasks/{task_id}/plans")).json()
    assert first["changes"]["before"] is None
    assert second["changes"]["before"] == 1
    assert second["changes"]["changed"] == [
        {"step_id": "s", "fields": [{"name": "parameters.to", "before": "Ann", "after": "Eve"}]}
    ]


async def test_a_service_may_want_every_plan_reviewed(tmp_path: Path) -> None:
    settings = Settings.model_validate({"approval": {"review_plan": True}, "server": {"port": 0}})
    replan = Replan(db=tmp_path / "t.db", tools=[send], settings=settings, evaluation="steps")
    async with (
        service_on(replan) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False) as http,
    ):
        task_id = await submitted(here, http, review_plan=False)
        (shown,) = (await http.get(f"/api/v1/tasks/{task_id}/waiting")).json()
    assert shown["waiting_for"]["kind"] == "review"


async def test_nobody_in_time_ends_it_by_itself_where_the_service_drives_it(tmp_path: Path) -> None:
    settings = Settings.model_validate({"approval": {"expires_secs": 1}, "server": {"port": 0}})
    replan = Replan(db=tmp_path / "t.db", tools=[send], settings=settings, evaluation="steps")
    async with service_on(replan) as here, Client(here.url) as client:
        task_id = await client.submit("do it", plan=mail("Ann"), evaluation="steps", review_plan=True)
        async with asyncio.timeout(9):
            async for record in here.replan.watch(task_id):
                if record.type == "task_failed":
                    break
        result = await client.result(task_id)
    assert result.failure is not None
    assert result.failure.kind == "expired"


async def test_the_client_looks_changes_and_refuses(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=[send]) as here, Client(here.url) as client:
        task_id = await client.submit("do it", plan=mail("Ann"), evaluation="steps", review_plan=True)
        first = await client.wait(task_id)
        assert first.waiting_for[0].kind == "review"
        held = await client.held_plan(task_id)
        assert held.outlook.effects == ("s: send (once)",)
        with pytest.raises(PlanInvalid, match="no steps"):
            await client.review(task_id, plan=plan())
        with pytest.raises(AnsweredBefore):
            await client.review(task_id, plan_hash="other")
        await client.review(task_id, plan=mail("Eve"))
        assert (await client.wait(task_id)).output == "sent to Eve"
        again = await client.submit("do it", plan=mail("Ann"), evaluation="steps", review_plan=True)
        await client.wait(again)
        await client.review(again, False, reason="not today")
        refused = await client.wait(again)
        assert "not today" in refused.reason
        with pytest.raises(InputError, match="no open plan to review"):
            await client.review(again)


async def test_the_library_holds_shows_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Also a plan that is made anew, with why the first one was refused."""
    places = {"db": tmp_path / "t.db", "tools": [send], "evaluation": "steps", "review_plan": True}
    model = ScriptedModel({"execution_plan": [mail("Ann"), mail("Eve")]})
    async with Replan(model, **places) as replan:
        task_id = await replan.submit("write to somebody")
        assert (await replan.wait(task_id)).waiting_for[0].kind == "review"
    async with Replan(model, **places) as replan:
        held = await replan.held_plan(task_id)
        assert held.plan.steps[0].parameters == {"to": "Ann"}
        await replan.review(task_id, False, reason="Ann is away", by="bob")
        again = await replan.resume(task_id)
        assert again.waiting_for[0].plan_version == 2
        held = await replan.held_plan(task_id)
        assert held.changes.before == 1
        assert held.changes.added
        await replan.review(task_id, plan=held.plan, by="bob")
        result = await replan.resume(task_id)
    assert result.output == "sent to Eve"


async def test_over_grpc_it_is_told_and_agreed_to_on_the_same_stream_or_by_a_call(tmp_path: Path) -> None:
    async with serving(tmp_path) as there:
        options = pb.Options(plan_json=json.dumps(_plain()), evaluation="steps", review_plan=True)
        asked = pb.SubmitTaskRequest(task_description="do it", options=options)
        call = there.converse()
        await call.write(pb.ConverseRequest(execute=pb.ExecuteTaskRequest(task=asked)))
        one = await _heard(call, "waiting")
        shown = json.loads(one.review_json)
        assert one.waiting_for.kind == "review"
        assert shown["outlook"]["tool_calls"] == 1
        yes = pb.ReviewPlanRequest(version=shown["version"], approved=True)
        await call.write(pb.ConverseRequest(id="1", review=yes))
        assert (await _heard(call, "refused")).reason == "INPUT_ERROR"
        yes.hash = one.hash
        await call.write(pb.ConverseRequest(id="2", review=yes))
        assert (await _heard(call, "done")).id == "2"
        await _by_call(there, asked)


async def _by_call(there: Grpc, asked: Any) -> None:
    made = await there.call("SubmitTask", task_description=asked.task_description, options=asked.options)
    await there.there.waits(made.task_id)
    page = await there.call("ListWaiting", task_id=made.task_id)
    await there.call("ReviewPlan", task_id=made.task_id, version=1, approved=True, hash=page.items[0].hash)
    done = await there.call("GetResult", task_id=made.task_id, wait_secs=9.0)
    assert done.is_success


def _plain() -> JsonObject:
    found: JsonObject = json.loads(task().options.plan_json)
    return found


async def _heard(call: Any, name: str) -> Any:
    async with asyncio.timeout(9):
        while True:
            one = await call.read()
            if one.WhichOneof("response") == name:
                return getattr(one, name)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_of_mcp_shows_the_plan_in_a_form(tmp_path: Path, era: str) -> None:
    def answer(message: str) -> types.ElicitResult:
        return accept(approve=True)

    async with offering(tmp_path, era=era, says=answer) as mcp:
        done = await mcp.call("run_task", task="do it", options={**HELD, "plan": _plain()})
        assert done["is_success"], done
        (form,) = mcp.asked
    assert form.message.startswith("May plan 1 be carried out?")
    assert '"step_id"' in form.message
    assert set(form.requested_schema["properties"]) == {"approve", "reason"}


async def test_an_mcp_client_without_forms_hands_the_answer_on(tmp_path: Path) -> None:
    async with offering(tmp_path) as mcp:
        left = await mcp.call("run_task", task="do it", options={**HELD, "plan": _plain()})
        (waits,) = left["waiting"]
        assert "review_plan" in left["next"]
        task_id = left["task_id"]
        given = {"task_id": task_id, "version": waits["review"]["version"], "approved": True}
        assert "hash" in await mcp.refused("review_plan", **given)
        await mcp.call("review_plan", **given, hash=waits["hash"])
        assert (await mcp.call("wait_task", task_id=task_id))["is_success"]
