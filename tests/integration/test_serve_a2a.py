"""Tasks over A2A, asked for with that protocol's own client."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_here import Here, service_here, service_on

from live_server import serving
from replan import Replan, tool
from replan.config import Settings
from replan.config.sections import Server
from replan.testing import ScriptedModel

types = pytest.importorskip("a2a.types")
client = pytest.importorskip("a2a.client")
helpers = pytest.importorskip("google.protobuf.json_format")
pytestmark = pytest.mark.anyio
DONE = types.TaskState.TASK_STATE_COMPLETED
ASKED = types.TaskState.TASK_STATE_INPUT_REQUIRED


@tool(effect="reads")
def weather(city: str) -> dict[str, Any]:
    """The weather of a city."""
    return {"city": city, "degrees": 30}


@tool(effect="once", requires_approval=True)
def pay(amount: int) -> dict[str, int]:
    """Pay an amount."""
    return {"paid": amount}


@tool(effect="reads")
def lost() -> str:
    """Fail."""
    raise ValueError("there is no such thing")


TOOLS = [weather, pay, lost]


def step(step_id: str, tool_id: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": tool_id, "parameters": parameters}


def message(name: str, *steps: dict[str, Any], data: Any = None, **more: Any) -> Any:
    """What is sent: a task with that plan, or an answer."""
    asked = types.SendMessageRequest(
        message=types.Message(message_id=name, role=types.Role.ROLE_USER, **more)
    )
    if data is None:
        asked.message.parts.append(types.Part(text="A task of another agent"))
    else:
        helpers.ParseDict({"data": data}, asked.message.parts.add())
    if steps:
        helpers.ParseDict({"options": {"plan": {"steps": list(steps)}}}, asked.metadata)
    return asked


async def asking(here: Here, *, streaming: bool = True) -> Any:
    """The SDK's client, by the card that it finds itself."""
    return await client.create_client(here.url, client.ClientConfig(streaming=streaming))


async def all_of(stream: Any) -> list[Any]:
    return [answer async for answer in stream]


def plain(part: Any) -> Any:
    return helpers.MessageToDict(part.data) if part.WhichOneof("content") == "data" else part.text


async def test_a_message_is_a_task_whose_result_is_an_artifact_and_sent_again_it_is_the_same(
    tmp_path: Path,
) -> None:
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        httpx2.AsyncClient(trust_env=False) as http,
    ):
        refused = await http.get(f"{here.url}/a2a")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        async with await asking(here, streaming=False) as agent:
            (answer,) = await all_of(agent.send_message(message("m1", step("a", "weather", city="Rome"))))
            (again,) = await all_of(agent.send_message(message("m1", step("a", "weather", city="Rome"))))
            read = await agent.get_task(types.GetTaskRequest(id=answer.task.id))
            listed = await agent.list_tasks(types.ListTasksRequest(status=DONE, include_artifacts=True))
            (short,) = (await agent.list_tasks(types.ListTasksRequest(status=DONE))).tasks
        assert len(await here.replan.tasks()) == 1
    task = answer.task
    assert task.status.state == DONE
    assert plain(task.artifacts[0].parts[0]) == {"city": "Rome", "degrees": 30}
    assert listed.tasks[0].artifacts == task.artifacts
    assert (short.id, short.status.state, list(short.artifacts)) == (task.id, DONE, [])
    assert (again.task.id, read.id, [one.id for one in listed.tasks]) == (task.id, task.id, [task.id])
    assert task.history[0].parts[0].text == "A task of another agent"
    assert task.context_id == "m1"


async def test_a_stream_tells_the_task_its_steps_its_artifact_and_its_end(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=TOOLS, a2a=True) as here, await asking(here) as agent:
        told = await all_of(agent.send_message(message("m1", step("a", "weather", city="Rome"))))
    kinds = [one.WhichOneof("payload") for one in told]
    assert kinds[0] == "task"
    assert kinds[-2:] == ["artifact_update", "status_update"]
    assert told[-1].status_update.status.state == DONE
    words = [one.status_update.status.message.parts[0].text for one in told[1:-2]]
    assert any(text.startswith("a: started") for text in words), words


async def test_what_waits_for_a_person_is_input_required_and_a_message_answers_it(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        await asking(here, streaming=False) as agent,
    ):
        (first,) = await all_of(agent.send_message(message("m1", step("a", "pay", amount=3))))
        assert first.task.status.state == ASKED
        waits = plain(first.task.status.message.parts[1])["waiting"][0]
        assert (waits["kind"], waits["parameters"]) == ("approval", {"amount": 3})
        with pytest.raises(types.InvalidParamsError, match="a call waits for a yes or no"):
            await all_of(agent.send_message(message("m2", task_id=first.task.id)))
        yes = {"approved": True, "hash": waits["hash"]}
        (second,) = await all_of(agent.send_message(message("m3", task_id=first.task.id, data=yes)))
    assert second.task.status.state == DONE
    assert plain(second.task.artifacts[0].parts[0]) == {"paid": 3}


async def test_a_plan_that_waits_is_input_required_and_a_message_agrees_to_it(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        await asking(here, streaming=False) as agent,
    ):
        asked = message("m1")
        options = {"options": {"review_plan": True, "plan": {"steps": [step("a", "weather", city="Rome")]}}}
        helpers.ParseDict(options, asked.metadata)
        (first,) = await all_of(agent.send_message(asked))
        assert first.task.status.state == ASKED
        waits = plain(first.task.status.message.parts[1])["waiting"][0]
        assert (waits["kind"], waits["review"]["outlook"]["tool_calls"]) == ("review", 1)
        with pytest.raises(types.InvalidParamsError, match="a plan waits for a yes or no"):
            await all_of(agent.send_message(message("m2", task_id=first.task.id)))
        yes = {"approved": True, "hash": waits["hash"]}
        (second,) = await all_of(agent.send_message(message("m3", task_id=first.task.id, data=yes)))
    assert second.task.status.state == DONE


async def test_one_comes_back_to_a_stream_and_cancels(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=TOOLS, a2a=True) as here, await asking(here) as agent:
        first = await all_of(agent.send_message(message("m1", step("a", "pay", amount=3))))
        task_id = first[0].task.id
        back = await all_of(agent.subscribe(types.SubscribeToTaskRequest(id=task_id)))
        assert back[0].task.status.state == ASKED
        cancelled = await agent.cancel_task(types.CancelTaskRequest(id=task_id))
        assert cancelled.status.state == types.TaskState.TASK_STATE_CANCELED
        with pytest.raises(types.TaskNotCancelableError):
            await agent.cancel_task(types.CancelTaskRequest(id=task_id))


async def test_failures_and_what_is_not_there_are_the_protocols_own(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        await asking(here, streaming=False) as agent,
    ):
        (failed,) = await all_of(agent.send_message(message("m1", step("a", "lost"))))
        assert failed.task.status.state == types.TaskState.TASK_STATE_FAILED
        assert "there is no such thing" in failed.task.status.message.parts[0].text
        with pytest.raises(types.TaskNotFoundError):
            await agent.get_task(types.GetTaskRequest(id="task_none"))
        odd = message("m2")
        helpers.ParseDict({"options": {"max_round": 1}}, odd.metadata)
        with pytest.raises(types.InvalidParamsError, match=r"options\.max_round"):
            await all_of(agent.send_message(odd))
        picture = message("m3")
        picture.message.parts.add(url="https://example.com/a.png")
        with pytest.raises(types.ContentTypeNotSupportedError):
            await all_of(agent.send_message(picture))


@pytest.mark.parametrize("where", ["call", "message", "both"])
async def test_options_hold_wherever_in_the_metadata_they_stand(tmp_path: Path, where: str) -> None:
    """A yes that was asked for is waited for, and a plan that was given is the one that runs."""
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        await asking(here, streaming=False) as agent,
    ):
        asked = message("m1")
        options = {"options": {"approval": "all", "plan": {"steps": [step("a", "pay", amount=3)]}}}
        for holder in (asked, asked.message)[where == "message" : 1 + (where != "call")]:
            helpers.ParseDict(options, holder.metadata)
        (told,) = await all_of(agent.send_message(asked))
        assert told.task.status.state == ASKED, told


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"options": {"nonsense": 1}}, r"options\.nonsense"),
        ({"options": 7}, r"metadata\.options"),
        ({"Options": {"approval": "all"}}, "did you mean `options`"),
        ({"approval": "all"}, "write 'approval' into `options`"),
        ({"maxRounds": 1}, "write 'max_rounds' into `options`"),
        ({"dry_run": True}, "POST /api/v1/tasks has 'dry_run'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("on_message", [True, False])
async def test_what_is_asked_for_in_a_place_that_nobody_reads_is_refused(
    tmp_path: Path, metadata: dict[str, Any], told: str, on_message: bool
) -> None:
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        await asking(here, streaming=False) as agent,
    ):
        asked = message("m1")
        helpers.ParseDict(metadata, (asked.message if on_message else asked).metadata)
        with pytest.raises(types.InvalidParamsError, match=told):
            await all_of(agent.send_message(asked))
        listed = await agent.list_tasks(types.ListTasksRequest())
        assert not listed.tasks


async def test_what_is_said_about_a_task_is_held_to_what_it_may_say(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        await asking(here, streaming=False) as agent,
    ):
        (first,) = await all_of(agent.send_message(message("m1", step("a", "pay", amount=3))))
        yes = {"approved": True, "hash": "0" * 64}
        with pytest.raises(types.InvalidParamsError):
            await all_of(agent.send_message(message("m2", task_id=first.task.id, data=yes)))
        chosen = message("m3", task_id=first.task.id, data=yes)
        helpers.ParseDict({"options": {"max_rounds": 1}}, chosen.message.metadata)
        with pytest.raises(types.InvalidParamsError, match="chosen with a new task"):
            await all_of(agent.send_message(chosen))
        other = message("m4", step("a", "pay", amount=3))
        helpers.ParseDict({"options": {"max_rounds": 1}}, other.message.metadata)
        with pytest.raises(types.InvalidParamsError, match="give them once"):
            await all_of(agent.send_message(other))
        of_an_agent = message("m5", step("a", "pay", amount=3))
        of_an_agent.message.role = types.Role.ROLE_AGENT
        with pytest.raises(types.InvalidParamsError, match=r"message\.role"):
            await all_of(agent.send_message(of_an_agent))


@pytest.mark.parametrize(
    ("message_", "told"),
    [
        ({"parts": [{"text": "a"}] * 1_001}, "message.parts: there are 1,001; at most 1,000 are taken"),
        ({"parts": [{"data": {"k": [0] * 20_000}}]}, "more than 20,000 values"),
        ({"parts": [{"data": {"k": [None] * 20_000}}]}, "more than 20,000 values"),
        ({"parts": [{"text": "x"}], "referenceTaskIds": ["y"] * 20_001}, "more than 20,000 values"),
    ],
    ids=["parts", "data", "nulls", "references"],
)
@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_call_that_is_long_to_read_is_refused_unread(
    tmp_path: Path, message_: dict[str, Any], told: str, version: str
) -> None:
    method, role = ("SendMessage", "ROLE_USER") if version == "1.0" else ("message/send", "user")
    params = {"message": {"messageId": "m1", "role": role, **message_}}
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http,
    ):
        call = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer = (await http.post("/a2a", json=call, headers={"A2A-Version": version})).json()
        assert (answer["id"], answer["error"]["code"]) == (7, -32602)
        assert told in answer["error"]["message"]
        odd = await http.post("/a2a", content=b"{", headers={"A2A-Version": version})
        assert odd.json()["error"]["code"] == -32700


async def test_the_older_version_of_the_protocol_is_taken(tmp_path: Path) -> None:
    asked = {"message": {"messageId": "m1", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "Do it"}]}, "metadata": {"options": {"plan": {"steps": [step("a", "weather", city="Rome")]}}}}  # fmt: skip
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http,
    ):
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": asked}
        sent = (await http.post("/a2a", json=call)).json()
        assert (sent["result"]["kind"], sent["result"]["status"]["state"]) == ("task", "completed")
        again = {**call, "method": "tasks/get", "params": {"id": sent["result"]["id"]}}
        assert (await http.post("/a2a", json=again)).json()["result"]["id"] == sent["result"]["id"]


async def test_the_card_is_for_everybody_and_says_that_calls_need_a_key(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True, auth="keys") as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False) as http,
    ):
        card = (await http.get("/.well-known/agent-card.json")).json()
        refused = await http.post("/a2a", json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}})
    assert card["supportedInterfaces"][0]["url"] == f"{here.url}/a2a"
    assert card["capabilities"]["streaming"]
    assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "bearer"
    assert "weather" not in str(card)
    assert refused.status_code == 401


class Proxy:
    """Has a service below a path, under an address of its own."""

    def __init__(self) -> None:
        self.to = ""
        self.passed: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        content, more = b"", True
        while more:
            piece = await receive()
            content, more = content + piece.get("body", b""), piece.get("more_body", False)
        path = scope["path"]
        if not path.startswith(BELOW):
            status, kind, body = 404, "text/plain", b"nothing is here"
        else:
            self.passed.append(path)
            given = {name.decode(): value.decode() for name, value in scope["headers"] if name != b"host"}
            async with httpx2.AsyncClient(base_url=self.to, timeout=30.0, trust_env=False) as http:
                passed = path.removeprefix(BELOW)
                answer = await http.request(scope["method"], passed, content=content, headers=given)
            status, kind, body = answer.status_code, answer.headers["content-type"], answer.content
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


BELOW = "/agents/replan"


async def test_behind_a_proxy_the_card_leads_through_it(tmp_path: Path) -> None:
    proxy = Proxy()
    with serving(proxy) as outside:
        async with service_here(tmp_path, tools=TOOLS, a2a=True, public_url=f"{outside}{BELOW}") as here:
            proxy.to = here.url
            config = client.ClientConfig(streaming=False)
            async with await client.create_client(f"{outside}{BELOW}", config) as agent:
                (answer,) = await all_of(agent.send_message(message("m1", step("a", "weather", city="Rome"))))
    assert answer.task.status.state == DONE
    assert proxy.passed == [f"{BELOW}/.well-known/agent-card.json", f"{BELOW}/a2a"]


async def test_the_program_of_the_how_to_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "a2a.md").read_text("utf-8")
    (program,) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    scores = {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90}
    judged = {"overall_score": 95, "is_successful": True, "dimensions": scores, "final_output": "It is warm."}
    plan = {"steps": [step("a", "weather", city="Rome")]}
    model = ScriptedModel({"execution_plan": plan, "evaluation": judged})
    settings = Settings(server=Server(a2a=True))
    async with service_on(Replan(model, TOOLS, db=tmp_path / "tasks.db", settings=settings)) as here:
        text = program.replace("http://127.0.0.1:8080", here.url)
        await asyncio.to_thread(exec, compile(text, "a2a.md", "exec"), {"__name__": "of_the_page"})
    assert "It is warm." in capsys.readouterr().out


async def test_a_steps_question_is_input_required_and_a_message_answers_it(tmp_path: Path) -> None:
    ask = step("a", "ask_user", question="How many?", kind="number")
    why = step("b", "ask_user", question="Why?")
    async with (
        service_here(tmp_path, tools=TOOLS, a2a=True) as here,
        await asking(here, streaming=False) as agent,
    ):
        (first,) = await all_of(agent.send_message(message("m1", ask, why)))
        task_id = first.task.id
        waits = {one["text"]: one for one in plain(first.task.status.message.parts[1])["waiting"]}
        assert waits["How many?"]["answer_schema"] == {"type": "number"}
        number, reason = waits["How many?"]["id"], waits["Why?"]["id"]
        wrong = {"id": number, "output": "many"}
        with pytest.raises(types.InvalidParamsError, match="right is a number"):
            await all_of(agent.send_message(message("m2", task_id=task_id, data=wrong)))
        (second,) = await all_of(
            agent.send_message(message("m3", task_id=task_id, data={"id": number, "output": 3}))
        )
        assert second.task.status.state == ASKED
        (third,) = await all_of(
            agent.send_message(message("m4", task_id=task_id, data={"id": reason, "text": "it rains"}))
        )
    assert third.task.status.state == DONE
    assert plain(third.task.artifacts[0].parts[0]) == {"a": 3, "b": "it rains"}
