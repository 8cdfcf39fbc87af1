"""How often a call of a tool service is made that is turned away: as often as the caller's limit says, whoever counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from remote_wrong_servers import LIST, wrong_http

from replan import Replan
from replan.ports import ToolCall
from replan.tools.remote import RemoteSource

pytestmark = pytest.mark.anyio
PLAN = {"steps": [{"step_id": "a", "tool": "garbage", "parameters": {}}]}
OTHERS = LIST.replace(b'"once"', b'"reads"')


def answer(status: str, body: object, more: str = "") -> bytes:
    data = json.dumps(body).encode()
    return (
        f"HTTP/1.1 {status}\r\n{more}content-length: {len(data)}\r\nconnection: close\r\n\r\n".encode() + data
    )


DONE = answer("200 OK", {"output": 1})
TURNED_AWAY = [
    (LIST, answer("429 Too Many Requests", {}, "retry-after: 0\r\n")),
    (LIST, answer("425 Too Early", {})),
    (OTHERS, answer("503 Service Unavailable", {}, "retry-after: 0\r\n")),
    (OTHERS, b""),  # the connection is lost
]


@pytest.mark.parametrize(("listing", "away"), TURNED_AWAY)
@pytest.mark.parametrize("places", [1, 2])
async def test_a_call_of_a_task_is_tried_again_as_often_as_is_said_and_no_more(
    listing: bytes, away: bytes, places: int, tmp_path: Path
) -> None:
    async def ended(tries: int) -> str:
        async with (
            wrong_http(listing, *[away] * tries, DONE) as one,
            wrong_http(listing, *[away] * 9) as other,
        ):
            urls = [one, other][:places]
            source = RemoteSource(urls, max_retries=9)
            async with Replan(
                tools=[source], db=tmp_path / f"{tries}.db", evaluation="steps", max_transient_retries=1
            ) as replan:
                return str((await replan.run("go", plan=PLAN)).status)

    assert await ended(1) == "succeeded"
    assert await ended(2) == "failed"


@pytest.mark.parametrize("away", [away for _, away in TURNED_AWAY[:2]])
async def test_a_call_beside_a_task_is_tried_again_by_the_source(away: bytes) -> None:
    async with wrong_http(LIST, *[away] * 3, DONE) as url:
        source = RemoteSource([url], max_retries=3)
        assert await source.call(ToolCall("garbage", {}, "key")) == 1
        await source.aclose()
