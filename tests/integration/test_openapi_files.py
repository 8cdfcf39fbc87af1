"""Large bodies of operations: files of the task on their way in and out."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bodies_server import MIB, Bodies, block, bodies, sha256_of
from replan import File, Replan, tool
from replan.core.events import CallCompleted, CallStarted
from replan.core.references.kept import TAKES_FILE
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.openapi import OpenApiSource

pytestmark = pytest.mark.anyio

BINARY = {"schema": {"type": "string", "format": "binary"}}
FORM = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "photo": {"type": "string", "format": "binary"},
        "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
    },
}


def document(of_answer: str = "application/zip") -> dict[str, Any]:
    ok = {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}}
    queries = ("mib", "type", "text", "after", "chunked")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Files", "version": "1"},
        "paths": {
            "/bytes": {
                "get": {
                    "operationId": "fetch",
                    "parameters": [
                        {"name": name, "in": "query", "schema": {"type": "string"}} for name in queries
                    ],
                    "responses": {"200": {"description": "ok", "content": {of_answer: {}}}},
                }
            },
            "/put": {
                "put": {
                    "operationId": "put",
                    "requestBody": {"required": True, "content": {"application/zip": BINARY}},
                    "responses": ok,
                }
            },
            "/form": {
                "post": {
                    "operationId": "send",
                    "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM}}},
                    "responses": ok,
                }
            },
        },
    }


def step(step_id: str, name: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "parameters": parameters, "dependencies": list(needs)}


@tool(effect="reads")
def picture() -> dict[str, Any]:
    return {"file": File((block(n) for n in range(2)), "image/png")}


def opened(db: Path, server: Bodies, of_answer: str = "application/zip", **more: Any) -> Replan:
    source = OpenApiSource(document(of_answer), server=server.url, **more)
    return Replan(tools=[source, picture], db=db, evaluation="steps", max_rounds=1, max_transient_retries=0)


@pytest.fixture
async def server() -> AsyncIterator[Bodies]:
    async with bodies() as made:
        yield made


async def test_what_an_operation_gives_is_a_file_that_another_takes(tmp_path: Path, server: Bodies) -> None:
    async with opened(tmp_path / "log.db", server) as replan:
        plan = {
            "steps": [
                step("a", "fetch", mib="70", type="application/zip"),
                step("b", "put", "a", body="${a.output}"),
            ]
        }
        result = await replan.run("go", plan=plan, task_id="t")
        assert result.final_output == {
            "size": 70 * MIB,
            "sha256": sha256_of(70),
            "type": "application/zip",
        }
        assert server.received[0].headers["content-length"] == str(70 * MIB)
        events = [record.event for record in await replan.history("t")]
        done = next(event for event in events if isinstance(event, CallCompleted))
        assert done.artifact is not None
        assert (done.artifact.size, done.artifact.media_type) == (70 * MIB, "application/zip")
        started = [event for event in events if isinstance(event, CallStarted)]
        assert started[1].parameters == {"body": f"artifact:{done.artifact.artifact_id}"}


async def test_a_form_has_files_among_its_fields(tmp_path: Path, server: Bodies) -> None:
    async with opened(tmp_path / "log.db", server) as replan:
        plan = {
            "steps": [
                step("a", "picture"),
                step(
                    "b",
                    "send",
                    "a",
                    title="holidays",
                    photo="${a.output.file}",
                    more=["${a.output.file}", "data:image/gif;base64,AAEC"],
                ),
            ]
        }
        result = await replan.run("go", plan=plan)
        assert result.is_success, result.failure
        one = server.received[0]
        boundary = one.headers["content-type"].partition("boundary=")[2]
        photo, gif = b"".join(block(n) for n in range(2)), b"\0\1\2"

        def part(name: str, kind: str, data: bytes, filename: str = "") -> bytes:
            named = f'; filename="{filename}"' if filename else ""
            typed = f"\r\nContent-Type: {kind}" if kind else ""
            return (
                f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}{typed}\r\n\r\n'.encode()
                + data
                + b"\r\n"
            )

        wanted = (
            part("title", "", b"holidays")
            + part("photo", "image/png", photo, "photo")
            + part("more", "image/png", photo, "more")
            + part("more", "image/gif", gif, "more")
            + f"--{boundary}--\r\n".encode()
        )
        assert one.headers["content-length"] == str(one.size) == str(len(wanted))
        assert one.sha256 == hashlib.sha256(wanted).hexdigest()


@pytest.mark.parametrize(
    ("asked", "of_answer", "kept"),
    [
        ({"mib": "1", "type": "application/zip"}, "application/zip", False),
        ({"mib": "2", "type": "application/zip"}, "application/zip", True),
        ({"mib": "2", "type": "text/csv", "text": "1"}, "text/csv", False),
        ({"mib": "4", "type": "text/csv", "text": "1"}, "text/csv", True),
        ({"mib": "2", "text": "1"}, "text/csv", False),
        ({"mib": "2"}, "application/zip", True),
    ],
)
async def test_it_goes_by_type_and_size(
    asked: dict[str, str], of_answer: str, kept: bool, tmp_path: Path, server: Bodies
) -> None:
    async with opened(tmp_path / "log.db", server, of_answer, max_result_bytes=3 * MIB) as replan:
        await replan.run("go", plan={"steps": [step("a", "fetch", **asked)]}, task_id="t")
        assert (await replan.service.streamed_output("t", "a") is not None) == kept
        size = sum([len(piece) async for piece in replan.output_pieces("t", "a")])
        assert size == int(asked["mib"]) * MIB


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"mib": "4", "after": "3"}, "broke off"),
        ({"mib": "4", "after": "2", "chunked": "1"}, "broke off"),
        ({"mib": "5", "type": "image/png"}, "larger than 4,194,304 bytes"),
    ],
)
async def test_what_does_not_come_whole_is_a_failed_call(
    asked: dict[str, str], said: str, tmp_path: Path, server: Bodies
) -> None:
    async with opened(tmp_path / "log.db", server, max_file_bytes=4 * MIB) as replan:
        result = await replan.run("go", plan={"steps": [step("a", "fetch", **asked)]})
        assert said in str(result.failure)


async def test_the_schemas_say_where_files_go_and_without_a_task_nothing_is_one(server: Bodies) -> None:
    source = OpenApiSource(document(), server=server.url, max_result_bytes=MIB)
    tools = {tool.id: tool.parameters["properties"] for tool in await source.tools()}
    assert tools["put"]["body"][TAKES_FILE]
    assert tools["send"]["photo"][TAKES_FILE]
    assert TAKES_FILE not in tools["send"]["title"]
    with pytest.raises(ToolCallError, match="larger than"):
        await source.call(ToolCall("fetch", {"mib": "2", "type": "application/zip"}, "k"))
    found = await source.call(ToolCall("put", {"body": "artifact:bin_1"}, "k"))
    assert found["size"] == len("artifact:bin_1"), "a text as any other"
    await source.aclose()
