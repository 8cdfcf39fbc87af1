"""Bare servers, which the service is measured beside: FastAPI with a body that is checked, and frames that are sent to everybody.

python -m bench.service.floor PORT
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from replan.run.access.requests import SubmitRequest

BURSTS, BURST, PAUSE_SECS = 10, 4, 0.5


class Submitted(BaseModel):
    task_id: str
    status: str


api = FastAPI()


@api.post("/tasks", status_code=202, response_model=Submitted)
async def submit(request: SubmitRequest) -> Submitted:
    return Submitted(task_id="t", status="queued")


@api.get("/tasks/{task_id}", response_model=Submitted)
async def status(task_id: str) -> Submitted:
    return Submitted(task_id=task_id, status="running")


class Frames:
    """Sends the same frames to all who are connected, each encoded once."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[bytes]] = []
        self._task: asyncio.Task[None] | None = None

    async def _tick(self) -> None:
        await asyncio.sleep(2 * PAUSE_SECS)
        seq = 0
        for _ in range(BURSTS):
            frames = []
            for _ in range(BURST):
                seq += 1
                event = {"seq": seq, "ts": time.time(), "type": "x", "data": {"text": "x" * 200}}
                frames.append(
                    b"id: %d\nevent: x\ndata: %b\n\n"
                    % (seq, json.dumps(event, separators=(",", ":")).encode())
                )
            self._send(b"".join(frames))
            await asyncio.sleep(PAUSE_SECS)
        self._send(b'id: 99\nevent: task_completed\ndata: {"ts":%f,"x":1}\n\n' % time.time())

    def _send(self, data: bytes) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(data)

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._tick())
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while True:
            waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            data = await waiter
            await send({"type": "http.response.body", "body": data, "more_body": True})
            if b"task_completed" in data:
                return await send({"type": "http.response.body", "body": b""})


def main() -> None:
    api.mount("/frames", Frames())
    uvicorn.run(api, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", backlog=4096)


if __name__ == "__main__":
    main()
