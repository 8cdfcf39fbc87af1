"""An endpoint that leads on to other addresses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from replan import Replan
from replan.core.limits.policy import Budget
from replan.llm.address import served_by
from replan.llm.faults import EndpointError
from replan.llm.provider import open_model
from replan.ports import ModelRequest, Turn

pytestmark = pytest.mark.anyio

REQUEST = ModelRequest(
    role="evaluation",
    schema_name="evaluation",
    json_schema={"type": "object"},
    instructions="Judge.",
    turns=(Turn(role="user", text="?"),),
)


@contextmanager
def leading_to(location: str, status: int = 307) -> Iterator[tuple[str, list[str]]]:
    """The address of an endpoint that leads to `location` (empty: to itself; "-": it does not say where to), and what it is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            if location != "-":
                self.send_header("Location", location or self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
            thread.join()


async def told_by(url: str, *, streams: bool = False) -> EndpointError:
    model = open_model("m", endpoint=url, api_key="k", max_retries=0)
    try:
        with pytest.raises(EndpointError) as caught:
            await model.ask(REQUEST, (lambda _: None) if streams else None)
        return caught.value
    finally:
        await model.aclose()


async def test_one_that_leads_to_itself_is_left_after_a_few_requests() -> None:
    with leading_to("") as (url, asked):
        told = await told_by(url)
    assert "leads on and on" in str(told)
    assert not told.transient
    assert len(asked) <= 4


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_one_that_leads_to_another_origin_is_not_followed_and_no_key_goes_there(host: str) -> None:
    with leading_to("") as (elsewhere, asked_there):
        there = elsewhere.replace("127.0.0.1", host)
        with leading_to(f"{there}/chat/completions") as (url, asked):
            told = await told_by(url)
    assert f"leads on to {there.removesuffix('/v1')}" in str(told)
    assert "name it as the endpoint" in str(told)
    assert not told.transient
    assert len(asked) == 1
    assert not asked_there


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest", "https://127.0.0.1/v1", "//evil.example", "http://[x"]
)
async def test_one_that_leads_anywhere_else_is_asked_once(location: str) -> None:
    with leading_to(location) as (url, asked):
        told = await told_by(url)
    assert "leads on to" in str(told)
    assert len(asked) == 1


async def test_the_list_of_models_is_not_asked_of_another_origin_either() -> None:
    with (
        leading_to("http://127.0.0.1:1/v1/models") as (url, asked),
        pytest.raises(EndpointError, match=r"leads on to http://127\.0\.0\.1:1"),
    ):
        await served_by(url, "k")
    assert len(asked) == 1


async def test_one_that_leads_to_another_path_of_itself_is_followed() -> None:
    with leading_to("/v1/other") as (url, asked):
        await told_by(url)
    assert asked[:2] == ["POST /v1/chat/completions", "POST /v1/other"]


async def test_one_that_cannot_be_reached_leads_nowhere() -> None:
    told = await told_by("http://127.0.0.1:1/v1")
    assert "http://127.0.0.1:1/v1" in str(told)
    assert "cannot be reached" in str(told)
    assert "leads on" not in str(told)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", [301, 302, 303])
@pytest.mark.parametrize(
    ("location", "advice"),
    [
        ("/api/v1/chat/completions", "name http://127.0.0.1:PORT/api/v1 as the endpoint"),
        ("/v1/chat/completions/", "is http://127.0.0.1:PORT/v1 the base URL of its API?"),
        ("/login", "is http://127.0.0.1:PORT/v1 the base URL of its API?"),
    ],
)
async def test_a_redirect_after_which_nothing_would_be_asked_is_told_with_what_to_name(
    status: int, streams: bool, location: str, advice: str
) -> None:
    with leading_to(location, status) as (url, asked):
        told = await told_by(url, streams=streams)
    assert f"answers with a redirect (HTTP {status}) to {location}" in str(told)
    assert advice.replace("PORT", url.split(":")[2].removesuffix("/v1")) in str(told)
    assert not told.transient
    assert asked == ["POST /v1/chat/completions"]


@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirect_to_nowhere_is_told_as_one(status: int) -> None:
    with leading_to("-", status) as (url, asked):
        told = await told_by(url, streams=True)
    assert f"a redirect (HTTP {status}) that does not say where to" in str(told)
    assert len(asked) == 1


@pytest.mark.parametrize("budget", [None, 2])
async def test_a_redirect_that_is_followed_is_a_request_more(budget: int | None, tmp_path: Path) -> None:
    with leading_to("") as (url, asked):
        limits = Budget(max_llm_calls=budget)
        async with Replan("m", [], db=tmp_path / "db", endpoint=url, budget=limits) as made:
            result = await made.run("What is the time?")
    assert result.status == "failed"
    assert result.usage.llm_calls == len(asked) == (budget or 4)
