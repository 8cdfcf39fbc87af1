"""The programs that run on every peer with an agent that calls tools: the same tools, the same scripted model.

A peer brings `make`, which builds its own agent around the tools and the script; the rest is here, once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.conformance.case import Calls, Cases, Facts, ended

Tool = Callable[[], Awaitable[str]]
FENCED = '```json\n{"done": true}\n```'
"""An answer as models often give it."""


@dataclass(frozen=True)
class Asked:
    """What the model is asked, in the words of no framework."""

    turn: int
    """How often the model has been asked, this time included."""
    results: Sequence[str]
    """The texts of all tool results that it sees."""
    open_calls: int = 0
    """Calls in its history without a result: real endpoints refuse such a history."""


LONG_SECS = 110.0
"""For programs that go on to the limit of calls."""
Script = Callable[[Asked], "str | list[str]"]
"""What the model says: a last word, or the names of the tools that it calls, which JSON arguments may follow."""


def call_of(said: str) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a call in a script."""
    name, _, arguments = said.partition(" ")
    return name, json.loads(arguments or "{}")


class Agent(Protocol):
    """A peer's agent with its record: a second run goes on from the first."""

    async def run(self) -> Any: ...

    def stream(self) -> AsyncIterator[Any]: ...

    async def record(self) -> str:
        """All that the peer's own record holds, as a text."""
        ...


class Make(Protocol):
    """Builds a peer's agent. `limit`: the peer's own limit on model calls; None is its default."""

    def __call__(self, tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> Agent: ...


@dataclass
class Told:
    """A script's memory: what it was asked."""

    asked: list[Asked] = field(default_factory=list)

    @property
    def last(self) -> Asked:
        return self.asked[-1] if self.asked else Asked(0, ())


def named(name: str, tool: Tool) -> Tool:
    """The tool under a name, with a sentence for the model."""
    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = f"The tool {name}."
    return tool


def answering(calls: Calls, name: str, output: str = "ok", secs: float = 0.0) -> Tool:
    async def call() -> str:
        calls.made(name)
        await asyncio.sleep(secs)
        calls[f"{name} done"] += 1
        return output

    return named(name, call)


def raising(calls: Calls, name: str, error: Exception, secs: float = 0.0) -> Tool:
    async def call() -> str:
        calls.made(name)
        await asyncio.sleep(secs)
        raise error

    return named(name, call)


async def one_of_three_raises(make: Make) -> Facts:
    calls, told = Calls(), Told()

    def script(asked: Asked) -> str | list[str]:
        told.asked.append(asked)
        return ["pay", "slow", "failing"] if asked.turn == 1 else "done"

    tools = [
        answering(calls, "pay", "paid"),
        answering(calls, "slow", "slow result", 0.3),
        raising(calls, "failing", RuntimeError("boom"), 0.1),
    ]
    agent = make(tools, script)
    _, died = await ended(agent.run())
    await asyncio.sleep(0.4)
    kept = "\n".join(told.last.results) + await agent.record()
    return {
        "died": died,
        "kept": sum(text in kept for text in ("paid", "slow result")),
        "pay": calls["pay"],
        "slow_done": calls["slow done"],
    }


async def the_same_call_again(make: Make) -> Facts:
    calls = Calls()
    agent = make([answering(calls, "pay", "paid")], lambda asked: ["pay"])
    _, died = await ended(agent.run(), LONG_SECS)
    return {"calls": calls["pay"], "died": died}


async def an_unknown_tool(make: Make) -> Facts:
    calls, told = Calls(), Told()

    def script(asked: Asked) -> str | list[str]:
        told.asked.append(asked)
        return ["get_wether"] if asked.turn == 1 else ["get_weather"] if asked.turn == 2 else "done"

    tools = [answering(calls, "get_weather", "sunny"), answering(calls, "send")]
    _, died = await ended(make(tools, script).run())
    said = " ".join(told.asked[1].results) if len(told.asked) > 1 else ""
    return {
        "died": died,
        "told": "get_weather" in said and "send" in said,
        "went_on": calls["get_weather"] > 0 and not died,
    }


async def paid_then_timed_out(make: Make) -> Facts:
    """The effect is made, then the answer is lost. The model tries again once it is told of the timeout."""
    calls = Calls()

    def script(asked: Asked) -> str | list[str]:
        return "done" if asked.turn > 3 else ["pay"]

    agent = make([raising(calls, "pay", TimeoutError("no answer in 30 s"))], script)
    _, died = await ended(agent.run())
    return {"effects": calls["pay"], "died": died, "in_doubt": False}


async def in_circles_and_polling(make: Make) -> Facts:
    """A poll whose answer changes may go on until it is ready; A, B, A, B with the same answers may not."""
    calls = Calls()

    async def poll() -> str:
        return "ready" if calls.made("poll") == POLLS else f"{calls['poll']} of {POLLS} done"

    def until_ready(asked: Asked) -> str | list[str]:
        return "done" if any("ready" in text for text in asked.results) else ["poll"]

    _, poll_died = await ended(make([named("poll", poll)], until_ready).run())
    polled = {"polls": calls["poll"], "poll_died": poll_died}
    circle = Calls()
    circle.last_words = polled

    def around(asked: Asked) -> str | list[str]:
        circle.made("turn")
        return ["a"] if asked.turn % 2 else ["b"]

    agent = make([answering(circle, "a"), answering(circle, "b")], around)
    _, died = await ended(agent.run(), LONG_SECS)
    return {"calls": circle["a"] + circle["b"], "died": died, **polled}


POLLS = 30


async def cancelled_in_mid_tool(make: Make) -> Facts:
    """The one who reads the stream is cancelled while a tool runs, as a server does when its client leaves."""
    calls, started = Calls(), asyncio.Event()

    async def hung() -> str:
        started.set()
        for _ in range(60):
            calls["ticks"] += 1
            await asyncio.sleep(0.05)
        return "late"

    def script(asked: Asked) -> str | list[str]:
        return ["hung"] if asked.turn == 1 else ["after"] if asked.turn == 2 else "done"

    agent = make([named("hung", hung), answering(calls, "after")], script)

    async def read() -> None:
        async for _ in agent.stream():
            pass

    reader = asyncio.ensure_future(read())
    await asyncio.wait_for(started.wait(), 20)
    clock = asyncio.get_running_loop().time
    asked_at = clock()
    reader.cancel()
    await asyncio.wait({reader}, timeout=5)
    took = clock() - asked_at
    await asyncio.sleep(0.1)
    ticks = calls["ticks"]
    await asyncio.sleep(3.2)
    return {"secs": round(took, 2), "went_on": calls["ticks"] > ticks, "started_later": calls["after"]}


async def faults_in_a_stream(make: Make) -> Facts:
    """How a reader's stream ends when the tool raises, and when the model does."""

    async def read(agent: Agent) -> None:
        async for _ in agent.stream():
            pass

    def broken(asked: Asked) -> str | list[str]:
        raise RuntimeError("the model is gone")

    calls = Calls()
    tool = raising(calls, "bad", RuntimeError("boom"))
    _, by_tool = await ended(read(make([tool], lambda a: ["bad"] if a.turn == 1 else "done")))
    _, by_model = await ended(read(make([tool], broken)))
    return {"ends": {"tool": by_tool or "end", "model": by_model or "end"}}


async def cancelled_then_the_next_turn(make: Make) -> Facts:
    calls, hanging, told = Calls(), asyncio.Event(), Told()

    async def hung() -> str:
        hanging.set()
        await asyncio.sleep(30)
        return "late"

    second = False

    def script(asked: Asked) -> str | list[str]:
        if second:
            told.asked.append(asked)
            return "done"
        return ["quick", "hung"]

    agent = make([answering(calls, "quick", "quick result"), named("hung", hung)], script)
    running = asyncio.ensure_future(agent.run())
    await asyncio.wait_for(hanging.wait(), 20)
    await asyncio.sleep(0.2)
    running.cancel()
    await asyncio.wait({running}, timeout=5)
    second = True
    _, died = await ended(agent.run())
    return {
        "died": died,
        "open_calls": told.last.open_calls,
        "quick_known": any("quick result" in text for text in told.last.results),
    }


async def a_limit_of_none(make: Make) -> Facts:
    calls = Calls()

    def script(asked: Asked) -> str | list[str]:
        calls.made("model")
        return ["again"]

    async def run() -> None:
        await make([answering(calls, "again")], script, limit=0).run()  # a limit may be refused at once

    _, died = await ended(run(), LONG_SECS)
    return {"model_calls": calls["model"], "died": died}


PROGRAMS = {
    "R4": one_of_three_raises,
    "R5": the_same_call_again,
    "R6": an_unknown_tool,
    "C2": paid_then_timed_out,
    "C16": in_circles_and_polling,
    "C19": cancelled_in_mid_tool,
    "C20": faults_in_a_stream,
    "C22": cancelled_then_the_next_turn,
    "C25": a_limit_of_none,
}


def register(cases: Cases, make: Make, rows: Sequence[str] = tuple(PROGRAMS), option: str = "") -> None:
    """Put the programs of these rows among the peer's cases."""
    for row in rows:
        program = PROGRAMS[row]

        def bound(program: Callable[[Make], Awaitable[Facts]] = program) -> Awaitable[Facts]:
            return program(make)

        bound.__name__ = program.__name__ + (f"/{option}" if option else "")
        cases(row, option=option)(bound)
