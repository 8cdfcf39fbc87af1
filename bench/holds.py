"""How long one task holds the event loop: the longest pause of everything else in the process.

    python -m bench.holds [NAME …] [--blame]

Beside each task a watcher is due every two milliseconds. Printed are the longest times between two of its turns: by the clock, and
in CPU time of this process, which counts no pause that is another program's. `--blame` says where a pause of 20 ms or more was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from replan import Replan, tool
from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel

EVERY = 0.002
WORTH_BLAMING = 0.02


class Watcher:
    """Turns of the event loop, and who was at work when one was late."""

    def __init__(self, *, blame: bool = False) -> None:
        self.wall = self.cpu = 0.0
        self.turns = 0
        self.blamed: Counter[str] = Counter()
        self._last = time.perf_counter()
        self._blame = blame
        self._done = threading.Event()

    async def watch(self) -> None:
        self._last, cpu = time.perf_counter(), time.process_time()
        mine = threading.get_ident()
        sampler = threading.Thread(target=self._sample, args=(mine,), daemon=True)
        if self._blame:
            sampler.start()
        try:
            while True:
                await asyncio.sleep(EVERY)
                now, spent = time.perf_counter(), time.process_time()
                self.wall, self.cpu = max(self.wall, now - self._last), max(self.cpu, spent - cpu)
                self._last, cpu = now, spent
                self.turns += 1
        finally:
            self._done.set()

    def _sample(self, loop_thread: int) -> None:
        while not self._done.wait(0.005):
            if time.perf_counter() - self._last > WORTH_BLAMING:
                frames = traceback.extract_stack(sys._current_frames()[loop_thread])
                ours = [frame for frame in frames if "replan" in frame.filename]
                self.blamed[" < ".join(f"{one.name}:{one.lineno}" for one in reversed(ours[-5:]))] += 1


class Plain(ScriptedModel):
    """A model whose text comes in few pieces: an endpoint sends what has come since the last read."""

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        return await super().ask(request)


def step(step_id: str, name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "parameters": {}, "dependencies": list(needs), **more}


def plan(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": list(steps)}


def verdict(output: Any) -> dict[str, Any]:
    fits = {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90}
    return {"overall_score": 95, "is_successful": True, "dimensions": fits, "final_output": output}


@tool(effect="reads")
def text(size: int) -> str:
    """A text of that many characters."""
    return "some words of a text that goes on and on. " * (size // 42)


@tool(effect="once")
async def rows(count: int) -> list[dict[str, Any]]:
    """That many rows."""
    return await asyncio.to_thread(
        lambda: [{"id": n, "name": f"row {n}", "price": n / 7} for n in range(count)]
    )


@tool(effect="reads")
def written(count: int) -> str:
    """That many rows, as a JSON text."""
    return "[" + ",".join([json.dumps({"id": n, "name": f"row {n}"}) for n in range(count)]) + "]"


@tool(effect="reads")
async def look(q: Any = None) -> Any:
    """Gives back what it is given."""
    return q if isinstance(q, int) else 1


@tool(effect="once")
async def act(q: Any = None) -> Any:
    """Does something."""
    return 1


@tool(effect="reads")
def logged_in(password: str, count: int) -> list[dict[str, Any]]:
    """Rows that hold the password here and there."""
    return [{"id": n, "note": f"note {n} {password if n % 1000 == 0 else ''}"} for n in range(count)]


TOOLS = [text, rows, written, look, act, logged_in]
Case = Callable[[Replan], Awaitable[Any]]
CASES: dict[str, tuple[Any, Case]] = {}


def case(name: str, wanted: dict[str, Any] | Callable[[], dict[str, Any]], **more: Any) -> None:
    """A given plan, judged by its steps."""

    async def run(replan: Replan) -> Any:
        made = wanted() if callable(wanted) else wanted
        return await replan.run(name, plan=made, evaluation="steps", **more)

    CASES[name] = {}, run


def planned(name: str, answers: dict[str, Any]) -> None:
    """The same by a model."""

    async def run(replan: Replan) -> Any:
        return await replan.run(name)

    CASES[name] = answers, run


ONE = plan(step("a", "act", parameters={"q": 1}))
case("output_text_10mb", plan(step("a", "text", parameters={"size": 10_000_000})))
case("output_text_50mb", plan(step("a", "text", parameters={"size": 50_000_000})))
case("output_rows_20k", plan(step("a", "rows", parameters={"count": 20_000})))
case("output_rows_200k", plan(step("a", "rows", parameters={"count": 200_000})))
case(
    "output_masked_100k",
    plan(step("a", "logged_in", parameters={"password": "hunter2-and-more", "count": 100_000})),
)
case(
    "json_text_by_path_3mb",
    plan(
        step("a", "written", parameters={"count": 80_000}),
        step("b", "look", "a", parameters={"q": "${a.output[70000].id}"}),
    ),
)
case(
    "rows_by_reference_3mb",
    plan(
        step("a", "rows", parameters={"count": 60_000}),
        step("b", "look", "a", parameters={"q": "${a.output}"}),
    ),
)


def dense(count: int) -> dict[str, Any]:
    return plan(
        *(step(f"s{n}", "look", *(f"s{m}" for m in range(n)), parameters={"q": n}) for n in range(count))
    )


def wide(count: int, name: str = "look") -> dict[str, Any]:
    return plan(*(step(f"s{n}", name, parameters={"q": n}) for n in range(count)))


def chain(count: int, name: str = "look") -> dict[str, Any]:
    made = [step("s0", name, parameters={"q": 0})]
    made += [step(f"s{n}", name, parameters={"q": [n, f"${{s{n - 1}.output}}"]}) for n in range(1, count)]
    return plan(*made)


def same(count: int) -> dict[str, Any]:
    """Like calls of an effect, each meant."""
    return plan(*(step(f"s{n}", "act", parameters={"q": 1}, repeat=True) for n in range(count)))


case("plan_dense_1000", lambda: dense(1000))
case("plan_wide_5000", lambda: wide(5000))
case("plan_chain_5000", lambda: chain(5000))
case("plan_once_5000", lambda: wide(5000, "act"))
case("plan_repeated_2000", lambda: same(2000))
case(
    "for_each_5000",
    plan(step("a", "look", for_each=json.dumps(list(range(5000))), parameters={"q": "${item}"})),
)
case(
    "references_100k_in_a_text",
    lambda: plan(
        step("a", "look", parameters={"q": 1}),
        step("b", "look", "a", parameters={"q": "${a.output} " * 100_000}),
    ),
)
case(
    "parameters_50k",
    lambda: plan(
        step("b", "look", parameters={"q": {f"p{n}": n for n in range(50_000)}}),
    ),
)
BAD_REFERENCES = plan(*(step(f"s{n}", "look", parameters={"q": f"${{no{n}.output.x}}"}) for n in range(3000)))
UNKNOWN_TOOLS = plan(*(step(f"s{n}", f"toool{n}", parameters={"q": n}) for n in range(2000)))
planned("model_bad_references_3000", {"execution_plan": [BAD_REFERENCES, ONE], "evaluation": verdict("done")})
planned("model_unknown_tools_2000", {"execution_plan": [UNKNOWN_TOOLS, ONE], "evaluation": verdict("done")})
planned("model_plan_wide_5000", {"execution_plan": [wide(5000)], "evaluation": verdict("done")})
planned("model_plan_dense_1000", {"execution_plan": [dense(1000)], "evaluation": verdict("done")})
planned("model_final_output_4mb", {"execution_plan": ONE, "evaluation": verdict("word " * 800_000)})
planned(
    "model_final_rows_4mb",
    {
        "execution_plan": ONE,
        "evaluation": verdict([{"id": n, "name": f"row {n}"} for n in range(100_000)]),
    },
)
planned(
    "model_answer_4mb_junk", {"execution_plan": ONE, "evaluation": ["no json {" * 450_000, verdict("done")]}
)
planned(
    "model_plan_answer_4mb_junk",
    {
        "execution_plan": ["{[" * 2_000_000, ONE],
        "evaluation": verdict("done"),
    },
)
planned(
    "model_retry_50k_parameters",
    {
        "execution_plan": plan(step("a", "act", parameters={"q": "${metadata.none}"})),
        "step_reflection": {
            "root_cause": "wrong",
            "can_continue": True,
            "suggested_action": "retry_with_params",
            "reasoning": "x",
            "new_parameters": {"q": {f"p{n}": n for n in range(50_000)}},
        },
        "evaluation": verdict("done"),
    },
)


async def measure(name: str, *, blame: bool) -> tuple[Watcher, str]:
    answers, run = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        async with Replan(Plain(answers), TOOLS, db=f"{folder}/r.db", task_timeout_secs=120) as replan:
            await replan.run("first", plan=ONE, evaluation="steps")
            gc.collect()
            watcher = Watcher(blame=blame)
            watching = asyncio.create_task(watcher.watch())
            await asyncio.sleep(0.02)
            before = time.perf_counter()
            try:
                result = await run(replan)
                said = result.status + (f": {result.failure.reason[:100]}" if result.failure else "")
            except Exception as error:  # noqa: BLE001 - told in the table
                said = f"{type(error).__name__}: {error}"[:100]
            took = time.perf_counter() - before
            await asyncio.sleep(0.02)
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
    return watcher, f"{took:6.2f} s  {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description="How long one task holds the event loop.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--blame", action="store_true", help="say where the pauses were")
    given = parser.parse_args()
    print(f"{'':32} {'clock':>8} {'CPU':>8}  turns   took  ended (ms)")
    for name in given.names or CASES:
        watcher, said = asyncio.run(measure(name, blame=given.blame))
        print(
            f"{name:32} {watcher.wall * 1e3:8.0f} {watcher.cpu * 1e3:8.0f} {watcher.turns:6}  {said}",
            flush=True,
        )
        for where, count in watcher.blamed.most_common(12) if given.blame else ():
            print(f"      {count:5}  {where}")


if __name__ == "__main__":
    main()
