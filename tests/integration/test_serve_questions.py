"""What steps ask people, through every front end: shown with what fits, answered as a value or in words, refused with what is right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp_world import ERAS, accept, offering
from run_tasks import plan, step
from service_here import Here, service_here

from replan import Replan
from replan.client import Client
from replan.core.types import JsonObject
from replan.errors import AnsweredBefore, InputError, NoSuchPart

pytestmark = pytest.mark.anyio
PARTY: JsonObject = {
    "type": "object",
    "properties": {"guests": {"type": "integer"}, "when": {"type": "string"}},
    "required": ["guests"],
}


def asks(name: str = "ask", **given: Any) -> JsonObject:
    return step(name, "ask_user", parameters={"question": "How many?", **given})


def asked(**given: Any) -> JsonObject:
    return plan(asks(**given))


async def submitted(here: Here, http: Any, wanted: JsonObject) -> str:
    options = {"plan": wanted, "evaluation": "steps"}
    answer = await http.post("/api/v1/tasks", json={"task_description": "do it", "options": options})
    task_id: str = answer.json()["task_id"]
    async for record in here.replan.watch(task_id):
        if record.type == "task_waiting":
            break
    return task_id


async def test_over_http_an_answer_is_held_to_what_was_asked(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False) as http,
    ):
        task_id = await submitted(here, http, plan(asks(schema=PARTY), asks("sure", kind="yes/no")))
        waiting = (await http.get("/api/v1/waiting")).json()["items"]
        shown = {one["waiting_for"]["step_id"]: one["waiting_for"] for one in waiting}
        assert {one["kind"] for one in shown.values()} == {"question"}
        assert shown["ask"]["answer_schema"] == PARTY
        where = f"/api/v1/tasks/{task_id}/questions"
        wrong = await http.post(f"{where}/ask", json={"output": {"guests": "many"}})
        assert wrong.status_code == 422
        assert "guests" in wrong.json()["detail"]
        assert "right is JSON that fits" in wrong.json()["detail"]
        assert (await http.post(f"{where}/sure", json={"text": "perhaps"})).status_code == 422
        assert (await http.post(f"{where}/sure", json={})).status_code == 422
        assert (await http.post(f"{where}/nobody", json={"text": "yes"})).status_code == 404
        both = [http.post(f"{where}/{shown['ask']['id']}", json={"output": {"guests": n}}) for n in (3, 4)]
        codes = sorted(one.status_code for one in await asyncio.gather(*both))
        assert codes == [200, 409]
        assert (await http.post(f"{where}/sure", json={"output": False})).status_code == 200
        result = (await http.get(f"/api/v1/tasks/{task_id}/result?wait=20")).json()
        assert result["is_success"]
        assert result["final_output"]["sure"] is False
        assert result["final_output"]["ask"] in ({"guests": 3}, {"guests": 4})
        late = await http.post(f"{where}/sure", json={"text": "yes"})
        assert (late.status_code, late.json()["type"]) == (409, "urn:replan:problem:task-ended")


async def test_a_question_runs_out_by_itself_where_the_service_drives_the_task(tmp_path: Path) -> None:
    """At its time, also after a new start: not when what others have left is looked for."""
    async with service_here(tmp_path) as here, Client(here.url) as client:
        late = await client.submit("do it", plan=asked(limit_secs=4), evaluation="steps")
        task_id = await client.submit("do it", plan=asked(limit_secs=1), evaluation="steps")
        result = await failed(here, client, task_id)
        with pytest.raises(InputError, match="no open question"):
            await client.answer(task_id, "3")
    assert [one.text for one in result.ask] == ["How many?"]
    async with service_here(tmp_path) as here, Client(here.url) as client:
        await failed(here, client, late)


async def failed(here: Here, client: Client, task_id: str) -> Any:
    """What becomes of it within some seconds."""
    async with asyncio.timeout(9):
        async for record in here.replan.watch(task_id):
            if record.type == "task_failed":
                break
    return await client.result(task_id)


async def test_the_client_answers_with_a_value_or_in_words(tmp_path: Path) -> None:
    async with service_here(tmp_path) as here, Client(here.url) as client:
        task_id = await client.submit(
            "do it", plan=plan(asks(kind="number"), asks("why")), evaluation="steps"
        )
        first = await client.wait(task_id)
        assert {one.step_id: one.answer_schema for one in first.waiting_for} == {
            "ask": {"type": "number"},
            "why": {"type": "string", "minLength": 1},
        }
        with pytest.raises(InputError, match="right is a number"):
            await client.answer(task_id, "many", "ask")
        with pytest.raises(NoSuchPart):
            await client.answer(task_id, "many", "other")
        await client.answer(task_id, 12.5, "ask")
        with pytest.raises(AnsweredBefore):
            await client.answer(task_id, 13, "ask")
        await client.answer(task_id, "because")  # the only one by now
        result = await client.wait(task_id)
        assert result.output == {"ask": 12.5, "why": "because"}


async def test_the_library_answers_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with Replan(db=tmp_path / "t.db", interactive=True, evaluation="steps") as replan:
        task_id = await replan.submit("do it", plan=asked(kind="yes/no"))
        first = await replan.wait(task_id)
        assert (first.status, first.waiting_for[0].kind) == ("waiting", "question")
    async with Replan(db=tmp_path / "t.db", interactive=True, evaluation="steps") as replan:
        with pytest.raises(InputError, match="right is yes or no"):
            await replan.answer(task_id, 3)
        await replan.answer(task_id, True, by="ann")
        result = await replan.resume(task_id)
    assert result.output is True


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("given", "field", "said", "output"),
    [
        ({"choices": ["red", "blue"]}, {"enum": ["red", "blue"]}, "blue", "blue"),
        ({"choices": [1, 2]}, {"enum": ["1", "2"]}, "2", 2),
        ({"kind": "yes/no"}, {"type": "boolean"}, True, True),
        ({"kind": "number"}, {"type": "number"}, 2.5, 2.5),
        ({"kind": "date"}, {"type": "string", "format": "date"}, "2026-03-01", "2026-03-01"),
        ({"schema": PARTY}, {"type": "string"}, '{"guests": 3}', {"guests": 3}),
    ],
)
async def test_a_client_of_mcp_shows_a_form_of_the_kind_that_is_asked(
    tmp_path: Path, era: str, given: JsonObject, field: JsonObject, said: Any, output: Any
) -> None:
    def answer(message: str) -> types.ElicitResult:
        return accept(answer=said)

    async with offering(tmp_path, era=era, says=answer) as mcp:
        done = await mcp.call(
            "run_task", task="do it", options={"plan": asked(**given), "evaluation": "steps"}
        )
        assert done["final_output"] == output, done
        (form,) = mcp.asked
        assert form.message.startswith("How many?")
        shown = form.requested_schema["properties"]["answer"]
        assert field.items() <= shown.items(), shown


async def test_an_mcp_client_without_forms_hands_the_answer_on(tmp_path: Path) -> None:
    async with offering(tmp_path) as mcp:
        left = await mcp.call(
            "run_task", task="do it", options={"plan": asked(kind="number"), "evaluation": "steps"}
        )
        (waits,) = left["waiting"]
        assert waits["waiting_for"]["answer_schema"] == {"type": "number"}
        task_id = left["task_id"]
        refused = await mcp.refused("answer", task_id=task_id, question_id="ask", text="many")
        assert "right is a number" in refused
        await mcp.call("answer", task_id=task_id, question_id="ask", output=3)
        assert (await mcp.call("wait_task", task_id=task_id))["final_output"] == 3
