"""How long a large answer of a model's endpoint holds the event loop.

    python -m bench.answers [NAME …] [--size BYTES] [--streamed] [--blame]

The endpoint is another process. What is printed is what `bench.holds` prints, of answers just under what is read of one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.queues import Queue
from typing import Any

from bench.holds import ONE, TOOLS, Watcher, step, verdict
from replan import Replan
from replan.testing import ScriptedEndpoint

SIZE = 1_800_000
PLAN = json.dumps(ONE)
FORMS: dict[str, Callable[[int], str]] = {
    "blanks_behind": lambda size: PLAN + " " * size,
    "words_before": lambda size: "x" * size + PLAN,
    "lines_before": lambda size: "Some words of mine, and more.\n" * (size // 30) + PLAN,
    "thoughts": lambda size: "<think>" + "hm. " * (size // 4) + "</think>" + PLAN,
    "reasoning": lambda size: json.dumps({**ONE, "reasoning": "y" * size}),
    "reasoning_in_words": lambda size: json.dumps({**ONE, "reasoning": "some words of it. " * (size // 18)}),
    "escaped": lambda size: json.dumps({**ONE, "reasoning": '\n"计' * (size // 10)}),
    "braces": lambda size: '{"a":' * (size // 5),
    "brackets": lambda size: "[" * size,
    "quotes": lambda size: '{"steps":["' + '\\"' * (size // 2),
    "steps": lambda size: json.dumps(
        {"steps": [step(f"s{n}", "look", parameters={"q": "x" * 400}) for n in range(size // 480)]}
    ),
    "objects": lambda size: '{"a":1} ' * (size // 8),
    "fences": lambda size: "```json\n{}\n```\n" * (size // 15),
    "tags": lambda size: "<a><b></b>" * (size // 10) + PLAN,
    "no_json": lambda size: "no json {" * (size // 9),
    "numbers": lambda size: json.dumps({**ONE, "output": list(range(size // 8))}),
    "unknown_fields": lambda size: json.dumps({**ONE, **{f"f{n}": n for n in range(size // 16)}}),
}


def _serve(told: Queue[str], form: str, size: int) -> None:
    large = FORMS[form](size)
    answers = {"execution_plan": [PLAN, *[large] * 12], "evaluation": json.dumps(verdict("done"))}
    with ScriptedEndpoint(answers, piece=20_000) as server:
        told.put(server.url)
        time.sleep(600)


async def measure(form: str, size: int, *, streamed: bool, blame: bool) -> tuple[Watcher, str]:
    told: Queue[str] = multiprocessing.get_context("spawn").Queue()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(told, form, size), daemon=True)
    server.start()
    try:
        url = await asyncio.to_thread(told.get)
        with tempfile.TemporaryDirectory() as folder:
            async with Replan(
                endpoint=url,
                tools=TOOLS,
                db=f"{folder}/r.db",
                task_timeout_secs=60,
                settings=_settings(streamed=streamed),
            ) as replan:
                assert (await replan.run("a small answer")).succeeded
                gc.collect()
                watcher = Watcher(blame=blame)
                watching = asyncio.create_task(watcher.watch())
                await asyncio.sleep(0.02)
                before = time.perf_counter()
                result = await replan.run("a large answer")
                said = result.status + (f": {result.failure.reason[:100]}" if result.failure else "")
                took = time.perf_counter() - before
                await asyncio.sleep(0.02)
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
    finally:
        server.kill()
    return watcher, f"{took:6.2f} s  {said}"


def _settings(*, streamed: bool) -> Any:
    from replan.config import Settings

    return Settings.model_validate({"llm": {"enable_streaming": streamed}})


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a large answer holds the event loop.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FORMS)}")
    parser.add_argument("--size", type=int, default=SIZE, help="bytes of the answer, about")
    parser.add_argument("--streamed", action="store_true", help="as a stream")
    parser.add_argument("--blame", action="store_true", help="say where the pauses were")
    given = parser.parse_args()
    print(f"{'':32} {'clock':>8} {'CPU':>8}  turns   took  ended (ms)")
    for name in given.names or FORMS:
        watcher, said = asyncio.run(measure(name, given.size, streamed=given.streamed, blame=given.blame))
        print(
            f"{name:32} {watcher.wall * 1e3:8.0f} {watcher.cpu * 1e3:8.0f} {watcher.turns:6}  {said}",
            flush=True,
        )
        for where, count in watcher.blamed.most_common(12) if given.blame else ():
            print(f"      {count:5}  {where}")


if __name__ == "__main__":
    main()
