"""The document of the interface over HTTP says what the service does: for every call its forms, examples and errors; and whatever is asked, it answers so."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from document_world import Call, Document
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from service_process import plan, serving, step

from replan.run.access.use_cases import UseCases
from replan.server.http.app import make_app
from replan.server.shared import Shared
from thorough import examples

OPEN = {"health", "ready"}
INSIDE = {"may_watch", "may_measure"}
"""What a use case is asked first that is none itself."""


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with serving(tmp_path_factory.mktemp("document")) as running, running.client() as client:
        for task_id, body in {
            "done": plan(step("s1", "weather", city="Rome"), step("s2", "text", size=300_000)),
            "asks": plan(step("s1", "pay", amount=7)),
            "failed": plan(step("s1", "fail", why="it")),
        }.items():
            assert client.post("/tasks", json={**body, "task_id": task_id}).status_code == 202
        assert client.get("/tasks/done/result", params={"wait": 20}).status_code == 200
        yield client


@pytest.fixture(scope="module")
def document(http: httpx2.Client) -> Document:
    return Document(http.get("/openapi.json").json())


def test_the_document_is_valid_and_says_of_every_call_what_it_does_and_what_may_go_wrong(
    http: httpx2.Client, document: Document
) -> None:
    found = http.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    validate(found)
    for call in document.calls:
        assert call.operation["description"].endswith("."), call.name
        responses = call.operation["responses"]
        good = [status for status in responses if status[0] == "2"]
        bad = [status for status in responses if status[0] in "45"]
        assert good, call.name
        if call.name in OPEN:
            continue
        assert {"401", "403", "422", "431", "500", "503"} <= set(bad), call.name
        for status in bad:
            content = responses[status]["content"]["application/problem+json"]
            for example in content["examples"].values():
                document.fits(content["schema"], example["value"])
                assert example["value"]["status"] == int(status)


def test_every_call_that_takes_or_gives_something_has_an_example_that_fits(document: Document) -> None:
    for call in document.calls:
        if body := call.operation.get("requestBody"):
            content = body["content"]["application/json"]
            given_ones = [one["value"] for one in content.get("examples", {}).values()]
            for example in given_ones or [{}]:
                document.fits(content["schema"], example)
        for status, response in call.operation["responses"].items():
            content = response.get("content", {}).get("application/json")
            if status[0] == "2" and content is not None:
                shown = [one["value"] for one in content.get("examples", {}).values()]
                assert shown, f"{call.name} {status}"
                for one in shown:
                    document.fits(content["schema"], one)


def test_every_use_case_is_a_call(document: Document) -> None:
    cases = {
        name
        for name, _ in inspect.getmembers(UseCases, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    renamed = {"preview": "submit"}
    assert {renamed.get(name, name) for name in cases - INSIDE} <= {call.name for call in document.calls}


def test_every_call_of_the_specification_is_there(document: Document) -> None:
    calls = {
        f"{call.method} {re.sub(r'{[^}]*}', '{}', call.path.removeprefix('/api/v1'))}"
        for call in document.calls
    }
    task, step_ = "/tasks/{}", "/tasks/{}/steps/{}"
    reads = ["", "/result", "/events", "/plans", "/plans/{}", "/artifacts/{}"]
    acts = ["cancel", "pause", "resume", "hint", "fork", "approvals/{}", "questions/{}", "plans/{}/review"]
    wanted = {
        "POST /tasks",
        "GET /tasks",
        "GET /waiting",
        "GET /tools",
        "GET /tools/{}/stats",
        "GET /workflows",
        "GET /scenes",
    }
    wanted |= {f"GET {task}{one}" for one in reads} | {f"POST {task}/{one}" for one in acts}
    wanted |= {f"POST {step_}/{one}" for one in ("retry", "skip", "settle")} | {
        f"GET {step_}",
        f"GET {step_}/output",
    }
    wanted |= {"GET /health", "GET /ready", "GET /metrics"}
    assert wanted - calls == set()


def _calls() -> list[str]:
    app = make_app(Shared(None, None, settings_of_test(), None))  # type: ignore[arg-type] # only its routes
    return sorted(call.name for call in Document(app.openapi()).calls)


def settings_of_test() -> Any:
    from replan.config import Settings

    return Settings()


@pytest.mark.parametrize("name", _calls())
@given(data=st.data())
@settings(
    max_examples=examples(60),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_is_asked_the_answer_is_one_of_the_document(
    http: httpx2.Client, document: Document, name: str, data: st.DataObject
) -> None:
    call: Call = next(one for one in document.calls if one.name == name)
    known = {
        "task_id": ["done", "asks", "failed", "nobody"],
        "step_id": ["s1", "s2"],
        "tool_id": ["weather", "pay"],
        "version": ["1", "2", "0", "x"],
    }
    asked = data.draw(document.requests(call, known))
    if call.name == "result":
        asked.query.pop("wait", None)
    sent = None if asked.body is None else json.dumps(asked.body).encode()
    headers = {**asked.headers, **({"content-type": "application/json"} if sent is not None else {})}
    answer = http.request(
        asked.method, asked.path.removeprefix("/api/v1"), params=asked.query, headers=headers, content=sent
    )
    media = answer.headers.get("content-type", "").partition(";")[0]
    assert answer.status_code < 500 or answer.status_code in (501, 503), answer.text
    if answer.status_code in (404, 405) and answer.json()["type"].endswith(("no-such-route", "wrong-method")):
        return  # a part of the address made it another one
    document.checked(call, answer.status_code, media, answer.json() if "json" in media else None)


def test_the_service_is_well_after_all_of_that(http: httpx2.Client) -> None:
    assert http.get("/ready").json()["ready"] is True
    assert http.get("/tasks/done/result").json()["is_success"] is True
