"""`replan serve` over HTTP: a real process, and a client that knows nothing but HTTP."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_process import Service, events_of, plan, serving, step


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture
def http(service: Service) -> Iterator[httpx2.Client]:
    with service.client() as client:
        yield client


def done(http: httpx2.Client, body: dict[str, Any]) -> str:
    """The id of a task that has ended."""
    made = http.post("/tasks", json=body)
    assert made.status_code == 202, made.text
    task_id: str = made.json()["task_id"]
    assert http.get(f"/tasks/{task_id}/result", params={"wait": 20}).status_code == 200
    return task_id


def test_a_task_is_submitted_and_comes_to_its_result(http: httpx2.Client) -> None:
    made = http.post("/tasks", json=plan(step("s1", "weather", city="Rome")))
    assert made.status_code == 202
    task_id = made.json()["task_id"]
    assert made.headers["location"] == f"/api/v1/tasks/{task_id}"
    result = http.get(f"/tasks/{task_id}/result", params={"wait": 20}).json()
    assert (result["is_success"], result["final_output"]) == (True, {"city": "Rome", "degrees": 4})
    shown = http.get(f"/tasks/{task_id}").json()
    assert (shown["status"], shown["progress"], shown["total_steps"]) == ("succeeded", 1.0, 1)
    assert http.get(f"/tasks/{task_id}/steps/s1").json()["step"]["output"] == result["final_output"]
    assert [one["version"] for one in http.get(f"/tasks/{task_id}/plans").json()] == [1]
    piece = http.get(f"/tasks/{task_id}/steps/s1/output").json()
    assert json.loads(piece["text"]) == result["final_output"]


def test_the_same_request_is_the_same_task_and_another_one_a_conflict(http: httpx2.Client) -> None:
    body = {**plan(step("s1", "weather", city="Oslo")), "task_id": "oslo"}
    assert http.post("/tasks", json=body).status_code == 202
    again = http.post("/tasks", json=body)
    assert (again.status_code, again.json()["new"]) == (200, False)
    other = http.post("/tasks", json={**body, "task_description": "Another one"})
    assert (other.status_code, other.json()["type"]) == (409, "urn:replan:problem:task-exists")
    key = {"Idempotency-Key": "k-1"}
    first = http.post("/tasks", json=plan(step("s1", "weather", city="Bern")), headers=key).json()
    second = http.post("/tasks", json=plan(step("s1", "weather", city="Bern")), headers=key).json()
    assert first["task_id"] == second["task_id"]
    changed = http.post("/tasks", json=plan(step("s1", "weather", city="Lima")), headers=key)
    assert changed.status_code == 409


def test_a_call_is_agreed_to_by_what_stands_for_it_and_made_once(
    service: Service, http: httpx2.Client
) -> None:
    made = http.post("/tasks", json={**plan(step("s1", "pay", amount=7)), "task_id": "paid"}).json()
    with http.stream("GET", f"/tasks/{made['task_id']}/events") as stream:
        events = events_of(stream.iter_lines())
        asked = next(one for one in events if one["event"] == "approval_requested")
        waiting = next(one for one in http.get("/waiting").json()["items"] if one["task_id"] == "paid")
        approval = waiting["waiting_for"]["id"]
        assert approval == asked["data"]["data"]["approval_id"]
        address = f"/tasks/paid/approvals/{approval}"
        unseen = http.post(address, json={"approved": True})
        assert (unseen.status_code, "hash" in unseen.json()["detail"]) == (422, True)
        other = http.post(address, json={"approved": True, "hash": "another"})
        assert (other.status_code, other.json()["type"]) == (409, "urn:replan:problem:answered-before")
        assert http.post(address, json={"approved": True, "hash": waiting["hash"]}).status_code == 200
        assert [one["event"] for one in events][-1] == "task_completed"
    assert (service.folder / "paid.txt").read_text() == "7\n"


def test_a_stream_has_every_event_once_and_goes_on_where_it_was_cut(http: httpx2.Client) -> None:
    task_id = done(http, plan(step("s1", "weather", city="Rome"), step("s2", "weather", city="Oslo")))
    with http.stream("GET", f"/tasks/{task_id}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        whole = list(events_of(stream.iter_lines()))
    ids = [one["id"] for one in whole]
    assert ids == list(range(1, len(ids) + 1))
    assert whole[-1]["event"] == "task_completed"
    for seen in ids[:-1]:
        with http.stream("GET", f"/tasks/{task_id}/events", headers={"Last-Event-ID": str(seen)}) as stream:
            assert list(events_of(stream.iter_lines())) == whole[seen:]
    assert http.get(f"/tasks/{task_id}/events", params={"after": ids[-1]}).status_code == 204
    page = http.get(f"/tasks/{task_id}/events", headers={"accept": "application/json"}).json()
    assert (page["items"], page["next_after"]) == ([one["data"] for one in whole], None)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/tasks/nobody", None, 404, "task-not-found"),
        ("GET", "/tasks/nobody/events", None, 404, "task-not-found"),
        ("POST", "/tasks", {"task_descripton": "x"}, 422, "invalid-request"),
        ("POST", "/tasks", {"task_description": "x", "task_id": "a/b"}, 422, "input-error"),
        ("POST", "/tasks", plan({"step_id": "s1", "tool": "nothing"}), 422, "plan-invalid"),
        ("POST", "/tasks", {**plan({"step_id": "s1", "tool": "nothing"}), "dry_run": True}, 422, "plan-invalid"),
        ("GET", "/tools/nothing/stats", None, 404, "no-such-part"),
        ("GET", "/nowhere", None, 404, "no-such-route"),
        ("DELETE", "/tasks", None, 405, "wrong-method"),
        ("GET", "/tasks?limit=0", None, 422, "invalid-request"),
    ],
)  # fmt: skip
def test_errors_are_problems_that_say_what_would_be_right(
    http: httpx2.Client, method: str, path: str, body: Any, status: int, kind: str | None
) -> None:
    answer = http.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    if kind is not None:
        assert answer.headers["content-type"] == "application/problem+json"
        told = answer.json()
        assert (told["type"], told["status"]) == (f"urn:replan:problem:{kind}", status)
        assert len(told["detail"]) > 10


def test_it_ends_at_once_with_streams_open_and_takes_up_what_it_has_left(tmp_path: Path) -> None:
    body = {
        **plan(step("s1", "until", name="go"), step("s2", "weather", "s1", city="Rome")),
        "task_id": "long",
    }
    with serving(tmp_path, "--grace", "0") as first, first.client() as http:
        http.post("/tasks", json=body)
        with http.stream("GET", "/tasks/long/events") as stream:
            events = events_of(stream.iter_lines())
            seen = [next(events)["data"]]
            first.process.send_signal(15)
            seen += [one["data"] for one in events if one["id"]]
        _, told = first.process.communicate(timeout=30)
        assert (first.process.returncode, "Traceback" in told) == (0, False), told
    first.let_go()
    with serving(tmp_path) as second, second.client() as http:
        after = {"Last-Event-ID": str(seen[-1]["seq"])}
        with http.stream("GET", "/tasks/long/events", headers=after) as stream:
            seen += [one["data"] for one in events_of(stream.iter_lines()) if one["id"]]
        page = http.get("/tasks/long/events?limit=500", headers={"accept": "application/json"}).json()
        assert seen == page["items"]
        assert seen[-1]["type"] == "task_completed"


def test_it_is_drained_before_it_ends(tmp_path: Path) -> None:
    steps = [step("s1", "until", name="go"), step("s2", "weather", "s1", city="Rome")]
    body = {**plan(*steps), "task_id": "long"}
    with serving(tmp_path) as first, first.client() as http:
        http.post("/tasks", json=body)
        with http.stream("GET", "/tasks/long/events") as stream:
            lines = stream.iter_lines()
            while "call_started" not in next(lines):
                pass
            first.process.send_signal(15)
            told = [line for line in lines if line.startswith(":")]  # to its end
        assert "Last-Event-ID" in told[-1]
        for path in ("/tasks", "/tasks/long/cancel"):
            refused = http.post(path, json=plan(step("s1", "weather", city="Oslo")))
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.json()["type"] == "urn:replan:problem:leaving"
        assert (http.get("/ready").status_code, http.get("/health").status_code) == (503, 200)
        assert http.get("/tasks/long/events").status_code == 503
        assert http.get("/tasks/long").json()["status"] == "executing"
        first.let_go()
        _, said = first.process.communicate(timeout=30)
        assert (first.process.returncode, "Traceback" in said, "cut off" in said) == (0, False, False), said
    with serving(tmp_path) as second, second.client() as http:
        assert http.get("/tasks/long/result", params={"wait": 20}).json()["is_success"] is True
        page = http.get("/tasks/long/events?limit=500", headers={"accept": "application/json"}).json()
    called = [one["data"]["step_id"] for one in page["items"] if one["type"] == "call_started"]
    assert called == ["s1", "s2"], "each once"
    resumed = [one["type"] for one in page["items"]].index("task_resumed")
    assert [one["type"] for one in page["items"]].index("call_completed") < resumed, (
        "it came to its end before"
    )


@pytest.mark.parametrize("path", ["/tasks/any/cancel", "/tasks/any/fork", "/tasks"])
def test_a_page_of_somebody_else_cannot_have_a_browser_call_it(http: httpx2.Client, path: str) -> None:
    for origin in ("https://evil.example", "null", "http://localhost:3000"):
        for headers in ({}, {"content-type": "text/plain"}, {"content-type": "application/json"}):
            answer = http.post(path, headers={**headers, "origin": origin})
            assert answer.status_code == 403
            assert answer.json()["type"] == "urn:replan:problem:wrong-origin"
    own = str(http.base_url).rstrip("/").removesuffix("/api/v1")
    assert http.post(path, headers={"origin": own}).status_code != 403
    assert http.get("/tasks", headers={"host": "evil.example"}).status_code == 421


def test_metrics_name_routes_and_no_task(http: httpx2.Client) -> None:
    task_id = done(http, plan(step("s1", "weather", city="Kyiv")))
    http.get("/nowhere")
    told = http.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain")
    text = told.text
    assert 'route="/tasks",status="202"' in text
    assert 'route="/tasks/{task_id}/result",status="200"' in text
    assert 'route="none",status="404"' in text
    assert task_id not in text
    assert "_created" not in text
    assert 'replan_tool_calls_total{outcome="succeeded",tool="weather"}' in text


def test_tools_that_are_programs_run_in_the_service_as_elsewhere(tmp_path: Path) -> None:
    steps = (
        step("ran", "run_command", program="ls", arguments=["tools.py"]),
        step("computed", "run_python", code="result = 6 * 7"),
    )
    more = ("--tools", "kit:shell=ls", "--tools", "kit:python")
    with serving(tmp_path, *more) as service, service.client() as http:
        task_id = done(http, plan(*steps))
        result = http.get(f"/tasks/{task_id}/result").json()
    assert result["is_success"] is True, result["failure"]
    assert "tools.py" in str(result["steps"][0]["output"])
    assert "42" in str(result["steps"][1]["output"])


def test_it_ends_at_once_while_somebody_waits_for_a_result(tmp_path: Path) -> None:
    with serving(tmp_path, "--grace", "0") as service, service.client() as http:
        http.post("/tasks", json={**plan(step("s1", "until", name="go")), "task_id": "long"})
        with socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2]))) as waiting:
            waiting.sendall(b"GET /api/v1/tasks/long/result?wait=30 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            http.get("/tasks/long")  # which came later
            told = service.end()
            answer = b"".join(iter(lambda: waiting.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503"), head
    assert b"retry-after: 1" in head
    assert json.loads(body)["type"] == "urn:replan:problem:leaving"
    assert "Traceback" not in told, told


def test_a_name_that_is_none_in_the_query_is_refused(http: httpx2.Client) -> None:
    """Whoever says `?dry_run=true`, which belongs into the body, means that nothing is to be run."""
    refused = http.post(
        "/tasks",
        params={"dry_run": "true"},
        json={**plan(step("s1", "weather", city="Rome")), "task_id": "dry"},
    )
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("query.dry_run: there is no such name")
    assert http.get("/tasks/dry").status_code == 404
    assert http.get("/tasks", params={"stats": "failed"}).status_code == 422


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_large_answer_comes_whole_and_keeps_nothing_behind(service: Service, encoding: str) -> None:
    steps = [step(f"s{n}", "text", size=180_000) for n in range(40)]
    with service.client(headers={"accept-encoding": encoding}) as http:
        task_id = done(http, plan(*steps))

        def held() -> int:
            status = Path(f"/proc/{service.process.pid}/status").read_text()
            return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))

        found = http.get(f"/tasks/{task_id}/result")
        assert found.headers.get("content-encoding") == (None if encoding == "identity" else "gzip")
        assert len(found.json()["steps"]) == 40
        if not Path("/proc").exists():
            return
        for _ in range(3):
            http.get(f"/tasks/{task_id}/result")
        before = held()
        for _ in range(8):
            http.get(f"/tasks/{task_id}/result")
        assert held() - before < 4 * len(found.content) / 1024
