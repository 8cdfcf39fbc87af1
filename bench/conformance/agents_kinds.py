"""The programs of the rows E and S that run on every agent that calls tools, as those of `agents` do."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench.conformance.agents import Asked, Make, Script, Told, answering, named, raising
from bench.conformance.case import Calls, Cases, Facts, ended


def commits_then(calls: Calls, name: str, fails: Callable[[], None]) -> Any:
    """A tool that takes effect and then raises."""

    async def pay() -> str:
        calls.made(name)
        fails()
        return "paid"

    return named("pay", pay)


def wrapped() -> None:
    try:
        raise TimeoutError("no answer in 30 s")
    except TimeoutError:
        raise RuntimeError("the bank did not confirm")  # noqa: B904 - as much code is written


def grouped() -> None:
    raise ExceptionGroup("two went wrong", [ValueError("x"), ConnectionResetError("reset by peer")])


def command() -> None:
    raise subprocess.TimeoutExpired(["pay"], 30)


HIDDEN: dict[str, Callable[[], None]] = {"wrapped": wrapped, "in a group": grouped, "a command": command}
"""Ways to hide a timeout."""


def again_until(done: str) -> Script:
    """The model calls `pay`, and again as long as it is not told that it is done; three times at most."""

    def script(asked: Asked) -> str | list[str]:
        told = any(done in text for text in asked.results)
        return "done" if told or asked.turn > 3 else ["pay"]

    return script


async def paid_late(make: Make) -> Facts:
    """A function in a thread, which nobody can stop: it pays after the time limit."""
    calls = Calls()

    def pay() -> str:
        time.sleep(0.4)
        calls.made("pay")
        return "paid"

    _, died = await ended(make([named("pay", pay)], again_until("paid")).run())  # type: ignore[arg-type]
    await asyncio.sleep(1.5)
    return {"effects": calls["pay"], "died": died, "in_doubt": False}


async def claimed(make: Make) -> Facts:
    calls = Calls()

    def script(asked: Asked) -> str | list[str]:
        return {1: ["pay"], 2: ["payments"]}.get(asked.turn, "It is paid.")

    records = answering(calls, "payments", '{"payments": [], "total": 0}')
    tools = [raising(Calls(), "pay", TimeoutError("no answer in 30 s")), records]
    _, died = await ended(make(tools, script).run())
    return {"effects": calls["pay"], "success": not died}


async def hidden_timeouts(make: Make) -> Facts:
    calls = Calls()
    for how, fails in HIDDEN.items():
        await ended(make([commits_then(calls, how, fails)], again_until("paid")).run())
    return {"effects": {how: calls[how] for how in HIDDEN}}


async def a_default_spelt_out(make: Make) -> Facts:
    calls = Calls()

    async def pay(n: int = 0, memo: str = "") -> str:
        calls.made("pay")
        return "paid"

    def script(asked: Asked) -> str | list[str]:
        return {1: ['pay {"n": 1}'], 2: ['pay {"n": 1, "memo": ""}']}.get(asked.turn, "done")

    _, died = await ended(make([named("pay", pay)], script).run())
    return {"effects": calls["pay"], "died": died}


async def twice_in_one_answer(make: Make) -> Facts:
    calls = Calls()
    script: Script = lambda asked: ["pay", "pay"] if asked.turn == 1 else "done"  # noqa: E731
    _, died = await ended(make([answering(calls, "pay", "paid")], script).run())
    return {"effects": calls["pay"], "died": died}


async def twice_on_purpose(make: Make) -> Facts:
    calls = Calls()
    script: Script = lambda asked: ["pay"] if asked.turn < 3 else "done"  # noqa: E731
    _, died = await ended(make([answering(calls, "pay", "paid")], script).run())
    return {"effects": calls["pay"], "died": died}


async def a_stand_in_that_deletes(make: Make) -> Facts:
    calls = Calls()

    def script(asked: Asked) -> str | list[str]:
        return {1: ["get_ticket"], 2: ["delete_ticket"]}.get(asked.turn, "done")

    tools = [
        raising(calls, "get_ticket", RuntimeError("no such ticket")),
        answering(calls, "delete_ticket", "ok"),
    ]
    _, died = await ended(make(tools, script).run())
    return {"deleted": calls["delete_ticket"], "died": died}


async def shown(make: Make, tool: Callable[..., Any], name: str) -> tuple[str, str]:
    """What the model is shown of one call of the tool, and what the run died of."""
    told = Told()

    def script(asked: Asked) -> str | list[str]:
        told.asked.append(asked)
        return [name] if asked.turn == 1 else "done"

    _, died = await ended(make([named(name, tool)], script).run())
    return " ".join(told.last.results), died


async def a_generator(make: Make) -> Facts:
    def rows() -> Iterator[str]:
        yield from ("row 1", "row 2", "row 3")

    seen, died = await shown(make, rows, "rows")
    return {"seen": seen, "died": died}


async def no_json(make: Make) -> Facts:
    async def readings() -> dict[Any, Any]:
        return {"a": float("nan"), 1: "one", "1": "uno"}

    seen, died = await shown(make, readings, "readings")
    return {"seen": seen, "died": died, "told": "rror" in seen}


async def another_type(make: Make) -> Facts:
    async def how_many() -> int:
        return "many"  # type: ignore[return-value]

    seen, died = await shown(make, how_many, "how_many")
    return {"seen": seen, "died": died, "told": "rror" in seen}


async def two_of_twelve(make: Make) -> Facts:
    told = Told()

    def of(n: int) -> Any:
        async def send() -> str:
            if n in (3, 7):
                raise RuntimeError(f"letter {n} is lost")
            return f"letter {n} is sent"

        return named(f"send_{n}", send)

    def script(asked: Asked) -> str | list[str]:
        told.asked.append(asked)
        return [f"send_{n}" for n in range(12)] if asked.turn == 1 else "done"

    agent = make([of(n) for n in range(12)], script)
    _, died = await ended(agent.run())
    known = " ".join(told.last.results) + await agent.record()
    return {
        "kept": sum(f"letter {n} is sent" in known for n in range(12)),
        "told": sum(f"letter {n} is lost" in known for n in (3, 7)),
        "died": died,
    }


PROGRAMS = {
    "E2": claimed,
    "E3": hidden_timeouts,
    "E6": a_default_spelt_out,
    "E7": twice_in_one_answer,
    "E8": twice_on_purpose,
    "E14": a_stand_in_that_deletes,
    "S7": a_generator,
    "S9": no_json,
    "S10": another_type,
    "S16": two_of_twelve,
}


def register(cases: Cases, make: Make, rows: Sequence[str] = tuple(PROGRAMS), option: str = "") -> None:
    """Put the programs of these rows among the peer's cases."""
    for row in rows:
        program = {"E1": paid_late, **PROGRAMS}[row]

        def bound(program: Callable[[Make], Any] = program) -> Any:
            return program(make)

        bound.__name__ = program.__name__ + (f"/{option}" if option else "")
        cases(row, option=option)(bound)
