"""An endpoint that leads on to other addresses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

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
def leading_to(location: str) -> Iterator[tuple[str, list[str]]]:
    """The address of an endpoint that leads to `location` (empty: to itself), and what it is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(307)
            self.send_header("Location", location or self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
            thread.join()


async def told_by(url: str) -> EndpointError:
    model = open_model("m", endpoint=url, api_key="k", max_retries=0)
    try:
        with pytest.raises(EndpointError) as caught:
            await model.ask(REQUEST)
        return caught.value
    finally:
        await model.aclose()


async def test_one_that_leads_to_itself_is_left_after_a_few_requests() -> None:
    with leading_to("") as (url, asked):
        told = await told_by(url)
    assert "leads on and on" in str(told)
    assert not told.transient
    assert len(asked) <= 4


async def test_one_that_leads_to_where_nothing_is_says_where_that_is() -> None:
    with leading_to("http://127.0.0.1:1/v1/chat/completions") as (url, _):
        told = await told_by(url)
    assert "leads on to http://127.0.0.1:1, which cannot be reached" in str(told)


async def test_one_that_cannot_be_reached_leads_nowhere() -> None:
    told = await told_by("http://127.0.0.1:1/v1")
    assert "http://127.0.0.1:1/v1" in str(told)
    assert "cannot be reached" in str(told)
    assert "leads on" not in str(told)
