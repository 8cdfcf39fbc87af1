"""The service where workers take the tasks: it hands them on, shows what they do, and drives nothing itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from service_here import SECS, service_on
from service_process import events_of
from workers_here import Here

from workers import step

pytestmark = pytest.mark.anyio


def body(task_id: str, *steps: dict[str, Any]) -> dict[str, Any]:
    options = {"plan": {"steps": list(steps)}, "evaluation": "steps"}
    return {"task_id": task_id, "task_description": "A task for workers", "options": options}


async def test_a_task_goes_to_a_worker_and_a_person_agrees_to_its_call_over_http(here: Here) -> None:
    async with (
        service_on(here.replan()) as service,
        httpx2.AsyncClient(base_url=f"{service.url}/api/v1", trust_env=False, timeout=SECS) as http,
    ):
        steps = step("a", "do"), step("b", "pay", "a")
        made = await http.post("/tasks", json=body("t", *steps))
        assert (made.status_code, made.json()["status"]) == (202, "queued"), made.text
        assert (await http.get("/tasks/t/result", params={"wait": 0.05})).status_code == 409
        lines: list[str] = []
        asked = asyncio.Event()

        async def watch() -> None:
            async with http.stream("GET", "/tasks/t/events") as stream:
                async for line in stream.aiter_lines():
                    lines.append(line)
                    if line == "event: task_waiting":
                        asked.set()

        watching = asyncio.create_task(watch())
        async with here.worker(), asyncio.timeout(SECS):
            await asked.wait()
            (waiting,) = (await http.get("/waiting")).json()["items"]
            answer = {"approved": True, "hash": waiting["hash"]}
            address = f"/tasks/t/approvals/{waiting['waiting_for']['id']}"
            first, second = await asyncio.gather(*(http.post(address, json=answer) for _ in range(2)))
            assert {200} <= {first.status_code, second.status_code} <= {200, 409}
            result = await http.get("/tasks/t/result", params={"wait": SECS})
            await watching
        assert result.json()["is_success"] is True, result.text
        events = list(events_of(iter(lines)))
        assert [one["id"] for one in events] == list(range(1, len(events) + 1))
        assert events[-1]["event"] == "task_completed"
        assert service.replan.drives("t") is False
    assert here.done() == ["a", "b"]


ODD = ("\0", "a\0b", "\ud800", "'; DROP TABLE task; --", "%", "_", "\u202e", "🚀", " ", "x" * 200)


async def test_odd_texts_anywhere_are_no_fault_of_the_service_on_postgres(here: Here) -> None:
    async with (
        service_on(here.replan()) as service,
        httpx2.AsyncClient(base_url=f"{service.url}/api/v1", trust_env=False, timeout=SECS) as http,
    ):
        for odd in ODD:
            query = odd.encode("utf-8", "surrogatepass")
            for name in ("session_id", "cursor", "tenant", "status"):
                answer = await http.get(f"/tasks?{name}={quote(query)}")
                assert answer.status_code in (200, 422), (odd, name, answer.text)
            for path in ("/tasks/{}", "/tasks/{}/events", "/tools/{}/stats", "/waiting?cursor={}"):
                answer = await http.get(path.format(quote(query, safe="")))
                assert answer.status_code in (200, 404, 422), (odd, path, answer.text)
            for made in (
                {"task_description": odd},
                {"task_description": "x", "metadata": {odd: odd}},
                {"task_description": "x", "context": {"session_id": odd, "more": odd}},
                {"task_description": "x", "task_id": odd},
                {"task_description": "x", "options": {"queue": odd}},
            ):
                body = {
                    **made,
                    "options": {
                        **made.get("options", {}),
                        "plan": {"steps": [step("a", "do")]},
                        "evaluation": "steps",
                    },
                }
                answer = await http.post(
                    "/tasks", content=json.dumps(body), headers={"content-type": "application/json"}
                )
                assert answer.status_code in (202, 400, 422), (odd, made, answer.text)
                if answer.status_code == 202:
                    task_id = answer.json()["task_id"]
                    assert (await http.get(f"/tasks/{task_id}")).status_code == 200
                    assert (
                        await http.post(f"/tasks/{task_id}/cancel", json={"reason": "tried"})
                    ).status_code == 200
        assert (await http.get("/tasks")).status_code == 200
