"""Tasks as runs of AG-UI, read with that protocol's own types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import TypeAdapter
from service_here import Here, service_here

from replan import tool

core = pytest.importorskip("ag_ui.core")
pytestmark = pytest.mark.anyio


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


@tool(effect="once")
def book(seats: int) -> str:
    """Book seats, and lose the answer."""
    raise ConnectionResetError("cut")


TOOLS = [weather, pay, lost, book]


def step(step_id: str, tool_id: str, *dependencies: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": tool_id, "parameters": parameters, "dependencies": list(dependencies)}


def run_of(run_id: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "threadId": "thread-1",
        "runId": run_id,
        "messages": [{"id": "m1", "role": "user", "content": "A task of a page"}],
        "forwardedProps": {"options": {"plan": {"steps": list(steps)}}} if steps else None,
        **more,
    }


async def told(here: Here, body: dict[str, Any]) -> list[Any]:
    """The events of a run, each read as the protocol's own type, and held against its rules."""
    async with httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http:
        answer = await http.post("/ag-ui", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    events = [TypeAdapter(core.Event).validate_json(line.removeprefix("data: ")) for line in lines]
    check_rules(events)
    return events


def check_rules(events: list[Any]) -> None:
    """A run begins with its start and ends once, and whatever is opened in it is closed in it."""
    kinds = [event.type.value for event in events]
    assert kinds[0] == "RUN_STARTED"
    assert [kind for kind in kinds if kind in ("RUN_FINISHED", "RUN_ERROR")] == kinds[-1:]
    open_steps: set[str] = set()
    asked: set[str] = set()
    for event in events:
        if event.type.value == "STEP_STARTED":
            assert event.step_name not in open_steps
            open_steps.add(event.step_name)
        elif event.type.value == "STEP_FINISHED":
            open_steps.remove(event.step_name)
        elif event.type.value == "TOOL_CALL_START":
            asked.add(event.tool_call_id)
        elif event.type.value == "TOOL_CALL_RESULT":
            assert event.tool_call_id in asked
    assert not open_steps
    assert kinds.count("TEXT_MESSAGE_START") == kinds.count("TEXT_MESSAGE_END")


async def test_a_run_is_a_task_told_in_the_protocols_events_and_the_same_run_is_the_same_task(
    tmp_path: Path,
) -> None:
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        events = await told(here, run_of("run-1", step("a", "weather", city="Rome")))
        again = await told(here, run_of("run-1", step("a", "weather", city="Rome")))
        tasks = await here.replan.tasks()
    assert [event.type.value for event in events if event.type.value != "STATE_SNAPSHOT"] == [
        "RUN_STARTED", "STEP_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
        "STEP_FINISHED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED",
    ]  # fmt: skip
    by_kind = {event.type.value: event for event in events}
    assert json.loads(by_kind["TOOL_CALL_ARGS"].delta) == {"city": "Rome"}
    assert json.loads(by_kind["TOOL_CALL_RESULT"].content) == {"city": "Rome", "degrees": 30}
    assert by_kind["STATE_SNAPSHOT"].snapshot["status"] == "succeeded"
    assert by_kind["RUN_FINISHED"].outcome.type == "success"
    assert [event.type for event in again][-1] == events[-1].type
    assert len(tasks) == 1


async def test_what_waits_for_a_person_interrupts_the_run_and_the_answer_resumes_it(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        first = await told(here, run_of("run-1", step("a", "pay", amount=3)))
        assert first[-1].outcome.type == "interrupt"
        (interrupt,) = first[-1].outcome.interrupts
        assert (interrupt.reason, interrupt.metadata["parameters"]) == ("approval", {"amount": 3})
        yes = {"approved": True, "hash": interrupt.metadata["hash"]}
        resume = [{"interruptId": interrupt.id, "status": "resolved", "payload": yes}]
        second = await told(here, run_of("run-2", resume=resume))
    assert second[-1].outcome.type == "success"
    (answer,) = [event.delta for event in second if event.type.value == "TEXT_MESSAGE_CONTENT"]
    assert json.loads(answer) == {"paid": 3}


async def test_a_plan_that_waits_interrupts_the_run_and_the_answer_resumes_it(tmp_path: Path) -> None:
    options = {"review_plan": True, "plan": {"steps": [step("a", "weather", city="Rome")]}}
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        first = await told(here, run_of("run-1", forwardedProps={"options": options}))
        (interrupt,) = first[-1].outcome.interrupts
        assert (interrupt.reason, interrupt.metadata["review"]["outlook"]["tool_calls"]) == ("review", 1)
        yes = {"approved": True, "hash": interrupt.metadata["hash"]}
        resume = [{"interruptId": interrupt.id, "status": "resolved", "payload": yes}]
        second = await told(here, run_of("run-2", resume=resume))
        again = await told(here, run_of("run-3", resume=resume))
    assert second[-1].outcome.type == "success"
    assert again[-1].outcome.type == "success", "the same answer once more"


async def test_a_no_and_a_failure_end_the_run_with_an_error(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        failed = await told(here, run_of("run-1", step("a", "lost")))
        waits = await told(here, run_of("run-2", step("a", "pay", amount=3)))
        (interrupt,) = waits[-1].outcome.interrupts
        resume = [{"interruptId": interrupt.id, "status": "cancelled"}]
        refused = await told(here, run_of("run-3", resume=resume))
    assert failed[-1].type.value == refused[-1].type.value == "RUN_ERROR"
    assert "there is no such thing" in failed[-1].message


async def status_of(here: Here, body: dict[str, Any]) -> tuple[int, str]:
    async with httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http:
        answer = await http.post("/ag-ui", json=body)
    return answer.status_code, "" if answer.status_code == 200 else answer.json()["detail"]


async def test_an_answer_sent_again_is_the_same_run_and_another_one_is_refused(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        for run_id, status, more in (
            ("run-1", "resolved", {}),
            ("run-2", "resolved", {"reason": "as agreed"}),
            ("run-3", "cancelled", {}),
        ):
            first = await told(here, run_of(run_id, step("a", "pay", amount=3)))
            (interrupt,) = first[-1].outcome.interrupts
            payload = {"approved": True, "hash": interrupt.metadata["hash"], **more}
            entry = {"interruptId": interrupt.id, "status": status, "payload": payload}
            body = run_of(f"{run_id}-on", resume=[entry])
            once = await told(here, body)
            again = await told(here, body)
            assert [e.type for e in again if e.type.value != "STATE_SNAPSHOT"] == [
                e.type for e in once if e.type.value != "STATE_SNAPSHOT"
            ]
            other = {
                **entry,
                "status": "resolved",
                "payload": {"approved": status == "cancelled", "hash": payload["hash"]},
            }
            code, detail = await status_of(here, run_of(f"{run_id}-other", resume=[other]))
            assert code == 409
            assert "was answered before by" in detail
            assert "that answer holds" in detail
        changed = await told(here, run_of("run-4", step("a", "pay", amount=3)))
        (interrupt,) = changed[-1].outcome.interrupts
        payload = {"approved": True, "hash": interrupt.metadata["hash"], "parameters": {"amount": 2}}
        body = run_of(
            "run-4-on", resume=[{"interruptId": interrupt.id, "status": "resolved", "payload": payload}]
        )
        assert (await told(here, body))[-1].type == (await told(here, body))[-1].type
        plain = {**payload, "parameters": {"amount": 3}}
        other = [{"interruptId": interrupt.id, "status": "resolved", "payload": plain}]
        assert (await status_of(here, run_of("run-4-other", resume=other)))[0] == 409


async def test_the_answer_to_a_question_sent_again_is_the_same_run_too(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        for run_id, status in (("run-1", "resolved"), ("run-2", "cancelled")):
            first = await told(here, run_of(run_id, step("a", "book", seats=2)))
            (interrupt,) = first[-1].outcome.interrupts
            assert interrupt.reason == "outcome"
            entry = {
                "interruptId": interrupt.id,
                "status": status,
                "payload": {"text": "yes", "output": "B1"},
            }
            body = run_of(f"{run_id}-on", resume=[entry])
            once, again = await told(here, body), await told(here, body)
            assert [event.type.value for event in again][-1] == [event.type.value for event in once][-1]
            assert (
                once[-1].outcome.type
                == again[-1].outcome.type
                == ("success" if status == "resolved" else "cancelled")
            )
            other = {**entry, "status": "resolved", "payload": {"text": "no"}}
            assert (await status_of(here, run_of(f"{run_id}-other", resume=[other])))[0] in (404, 409)


async def test_a_question_whose_task_was_cancelled_counts_as_left_unanswered_whatever_was_said(
    tmp_path: Path,
) -> None:
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        first = await told(here, run_of("run-1", step("a", "book", seats=2)))
        (interrupt,) = first[-1].outcome.interrupts
        task_id = interrupt.id.rpartition("/")[0]
        async with httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http:
            said = {"reason": "not today"}
            assert (await http.post(f"/api/v1/tasks/{task_id}/cancel", json=said)).status_code in (200, 202)
        entry = {"interruptId": interrupt.id, "status": "cancelled"}
        assert (await told(here, run_of("run-2", resume=[entry])))[-1].outcome.type == "cancelled"
        other = {"interruptId": f"{task_id}/q_of_nobody", "status": "cancelled"}
        assert (await status_of(here, run_of("run-3", resume=[other])))[0] == 404


async def test_an_answer_that_cannot_be_taken_says_what_to_give(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        first = await told(here, run_of("run-1", step("a", "pay", amount=3)))
        (interrupt,) = first[-1].outcome.interrupts
        yes = {"interruptId": interrupt.id, "status": "resolved", "payload": {"approved": True}}
        no_hash = await status_of(here, run_of("run-2", resume=[yes]))
        none = {**yes, "interruptId": interrupt.id.rpartition("/")[0] + "/appr_none"}
        unknown = await status_of(here, run_of("run-3", resume=[none]))
        twice = await status_of(here, run_of("run-4", resume=[yes, yes]))
    assert no_hash[0] == 422
    assert twice == (422, "resume: an interrupt is answered twice; answer each once")
    assert "metadata.hash" in no_hash[1]
    assert unknown[0] == 404
    assert "nothing waits for" in unknown[1]


async def test_what_is_no_run_is_told_and_who_is_not_known_begins_none(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True, auth="keys") as here:
        async with httpx2.AsyncClient(base_url=here.url, trust_env=False) as http:
            answer = await http.post("/ag-ui", json=run_of("run-1", step("a", "weather", city="Rome")))
        assert answer.status_code == 401
    async with (
        service_here(tmp_path, tools=TOOLS, ag_ui=True) as here,
        httpx2.AsyncClient(base_url=here.url, trust_env=False) as http,
    ):
        no_run = await http.post("/ag-ui", json={"threadId": "t"})
        no_text = await http.post("/ag-ui", json=run_of("run-1") | {"messages": []})
        no_interrupt = await http.post(
            "/ag-ui", json=run_of("run-2", resume=[{"interruptId": "x/y", "status": "resolved"}])
        )
        read = await http.get("/ag-ui")
    assert (read.status_code, read.headers["allow"]) == (405, "POST")
    assert "/ag-ui does not take GET; it takes POST" in read.json()["detail"]
    assert (no_run.status_code, no_text.status_code, no_interrupt.status_code) == (422, 422, 404)
    assert "the last message of the user has no text" in no_text.json()["detail"]


async def test_it_is_not_there_unless_it_is_wanted(tmp_path: Path) -> None:
    async with service_here(tmp_path) as here, httpx2.AsyncClient(trust_env=False) as http:
        assert (await http.post(f"{here.url}/ag-ui", json=run_of("run-1"))).status_code == 404


async def test_a_steps_question_interrupts_the_run_with_the_schema_of_its_answer(tmp_path: Path) -> None:
    ask = step("a", "ask_user", question="Which?", choices=["red", "blue"])
    async with service_here(tmp_path, tools=TOOLS, ag_ui=True) as here:
        first = await told(here, run_of("run-1", ask))
        (interrupt,) = first[-1].outcome.interrupts
        assert (interrupt.reason, interrupt.message) == ("question", "Which?")
        assert interrupt.response_schema["properties"]["output"] == {"enum": ["red", "blue"]}

        def said(run_id: str, **payload: Any) -> dict[str, Any]:
            entry = {"interruptId": interrupt.id, "status": "resolved", "payload": payload}
            return run_of(run_id, resume=[entry])

        async with httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http:
            wrong = await http.post("/ag-ui", json=said("run-2", text="green"))
        assert wrong.status_code == 422
        assert "right is one of red, blue" in wrong.text
        done = await told(here, said("run-3", output="blue"))
        again = await told(here, said("run-3", output="blue"))
    for events in (done, again):
        assert events[-1].outcome.type == "success"
        assert events[-1].result["final_output"] == "blue"
