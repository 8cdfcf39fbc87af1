"""The tasks that are killed: plans, and tools that leave a mark outside before they answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from replan import tool
from replan.tools.functions.context import current

MAX_OUTPUT_BYTES = 2_000


class World:
    """What a process's tools act on: a file of effects, and where the process dies."""

    folder = Path()
    kill_at: tuple[int, str] | None = None
    """The n-th call that a tool of this process serves, before or after its effect."""
    calls = 0
    cancel: Callable[[str], Awaitable[None]] | None = None


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def mark(name: str, what: Any) -> int:
    """Leave a lasting mark; how many there were for the same call before."""
    World.calls += 1
    if World.kill_at == (World.calls, "before"):
        die()
    line = json.dumps({"task": current().task_id, "tool": name, "key": current().key, "what": what}) + "\n"
    path = World.folder / "effects"
    seen = path.read_text().count(current().key) if path.exists() else 0
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, line.encode())
    os.fsync(fd)
    os.close(fd)
    if World.kill_at == (World.calls, "after"):
        die()
    return seen


@tool(effect="reads")
async def read(n: int) -> dict[str, Any]:
    mark("read", n)
    await asyncio.sleep(0)
    return {"n": n, "items": [{"id": f"i{n}-{k}"} for k in range(3)], "even": n % 2 == 0}


@tool(effect="reads", output_params=["token"])
async def sign_in(user: str) -> dict[str, Any]:
    mark("sign_in", user)
    await asyncio.sleep(0.001)
    return {"token": f"token of {user}"}


@tool(effect="reads")
async def show(value: Any) -> Any:
    mark("show", None)
    return {"shown": value}


@tool(effect="repeatable")
def put(name: str, value: Any) -> str:
    mark("put", name)
    return f"{name} is {json.dumps(value, sort_keys=True)[:200]}"


@tool(effect="once")
async def charge(who: str, token: str = "") -> dict[str, str]:
    await asyncio.sleep(0)
    mark("charge", who)
    await asyncio.sleep(0.001)
    return {"charged": who}


@tool(effect="once")
def post(text: str) -> str:
    mark("post", len(text))
    return f"posted {len(text)}"


@tool(effect="reads")
async def big(letter: str) -> str:
    mark("big", letter)
    return letter * 5_000


@tool(effect="repeatable")
async def flaky(name: str) -> str:
    if mark("flaky", name) == 0:
        raise ConnectionResetError("cut off")
    return f"{name} at last"


@tool(effect="reads")
async def broken(why: str) -> str:
    mark("broken", why)
    raise ValueError(why)


@tool(effect="reads")
async def stop() -> str:
    mark("stop", None)
    assert World.cancel is not None
    await World.cancel(current().task_id)
    await asyncio.Event().wait()
    return "never"


TOOLS = [read, sign_in, show, put, charge, post, big, flaky, broken, stop]


def step(step_id: str, tool_id: str, /, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": tool_id, "parameters": parameters, "dependencies": list(needs)}


def action(action_id: str, tool_id: str, /, **parameters: Any) -> dict[str, Any]:
    return {"action_id": action_id, "tool": tool_id, "parameters": parameters}


PLANS: dict[str, list[dict[str, Any]]] = {
    "chain": [
        step("a", "read", n=1),
        step("b", "put", name="x", value="${a.output.n}"),
        step("c", "charge", who="${b.output}"),
        step("d", "show", value="${c.output.charged}"),
    ],
    "wide": [
        *(step(f"c{n}", "charge", who=f"w{n}") for n in range(6)),
        *(step(f"p{n}", "put", name=f"n{n}", value=f"${{c{n}.output}}") for n in range(3)),
        step("end", "show", *(f"c{n}" for n in range(3, 6)), value=["${p0}", "${p1}", "${p2}"]),
    ],
    "actions": [
        {
            "step_id": "all",
            "actions": [
                action("one", "sign_in", user="me"),
                action("two", "put", name="a", value=1),
                action("three", "charge", who="a"),
                action("four", "charge", who="b"),
            ],
        },
        step("use", "put", name="${all.actions.three.output.charged}", value="${metadata.token}"),
        step("end", "show", "use", value="${all.output}"),
    ],
    "items": [
        step("list", "read", n=4),
        {**step("each", "charge", who="${item.id} of ${index}"), "for_each": "${list.output.items}"},
        {
            "step_id": "both",
            "for_each": "${list.output.items}",
            "actions": [
                action("kept", "put", name="${item.id}", value="${index}"),
                action("paid", "charge", who="again ${item.id}"),
            ],
        },
        step("end", "show", "both", value="${each.output[*].charged}"),
    ],
    "metadata": [
        {
            "step_id": "each",
            "for_each": "${metadata.names}",
            "actions": [action("paid", "charge", who="${item}", token="${metadata.token}")],
        },
        step("in", "sign_in", user="late"),
        step("end", "show", "each", "in", value="${metadata.token}"),
    ],
    "when": [
        step("a", "read", n=3),
        {**step("yes", "charge", "a", who="yes"), "when": "a.output.n == `3`"},
        {**step("no", "charge", "a", who="no"), "when": "a.output.even"},
        step("after_no", "put", name="x", value="${no.output}"),
        step("end", "show", "yes", value="${yes.output}"),
    ],
    "large": [
        step("a", "big", letter="a"),
        step("b", "post", text="${a.output}"),
        step("c", "big", letter="c"),
        step("end", "show", "b", value=["${c.output}", "${a.output}"]),
    ],
    "retries": [
        step("f", "flaky", name="f"),
        step("g", "flaky", name="g"),
        step("end", "charge", who="${f.output} ${g.output}"),
    ],
    "failure": [
        step("bad", "broken", why="out of order"),
        step("never", "charge", "bad", who="never"),
        step("a", "read", n=2),
        step("good", "charge", who="${a.output.n}"),
    ],
    "cancel": [
        step("a", "charge", who="before"),
        step("s", "stop", "a"),
        step("never", "charge", "s", who="never"),
    ],
}
METADATA = {"names": ["x", "y", "z"], "token": "first"}
