"""LLMCompiler, in its LlamaIndex port: the plan's parser and the unit that fetches and runs its tasks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from llama_index.agent.llm_compiler.output_parser import LLMCompilerPlanParser
from llama_index.agent.llm_compiler.task_fetching_unit import TaskFetchingUnit
from llama_index.core.tools import FunctionTool

from bench.conformance.case import Calls, Cases, Facts, ended

case = Cases(["llama-index-agent-llm-compiler", "llama-index-core"])


async def ran(plan: str, tools: dict[str, Any], secs: float = 5.0) -> tuple[dict[int, Any], str]:
    """Parse a plan as a model writes it, run it as it streams in; its tasks, and what the run died of."""

    def wrapped(name: str, tool: Any) -> FunctionTool:
        async def call(*args: Any) -> Any:
            return await tool(*args)

        return FunctionTool.from_defaults(async_fn=call, name=name, description=name)

    parser = LLMCompilerPlanParser([wrapped(name, tool) for name, tool in tools.items()])
    tasks = parser.parse(plan)
    unit = TaskFetchingUnit.from_tasks({})
    queue: asyncio.Queue[Any] = asyncio.Queue()
    for task in tasks.values():
        queue.put_nowait(task)
    queue.put_nowait(None)
    _, died = await ended(unit.aschedule(queue), secs)
    return tasks, died


def giving(value: Any) -> Any:
    async def give() -> Any:
        return value

    return give


def keeping(kept: list[Any]) -> Any:
    async def keep(*args: Any) -> str:
        kept.append(args[0] if len(args) == 1 else list(args))
        return "kept"

    return keep


@case("R2")
async def a_step_starts_when_it_can() -> Facts:
    started: dict[str, float] = {}

    async def work(name: str, secs: float, *_: Any) -> str:
        started[name] = time.perf_counter()
        await asyncio.sleep(float(secs))
        return name

    zero = time.perf_counter()
    plan = '1. work("a", 0.1)\n2. work("b", 1.0)\n3. work("c", 0.1, "$1")\n4. work("d", 0.1, "$3")\n'
    _, died = await ran(plan, {"work": work})
    return {"c_at": round(started["c"] - zero, 2), "secs": round(time.perf_counter() - zero, 2), "died": died}


@case("R14")
async def a_dependency_fails() -> Facts:
    calls = Calls()

    async def bad() -> str:
        raise RuntimeError("boom")

    async def after(*_: Any) -> str:
        calls.made("after")
        return "after"

    _, died = await ran('1. bad()\n2. after("$1")\n', {"bad": bad, "after": after})
    return {"dependent_ran": calls["after"] > 0, "reason": False, "died": died}


@case("R15")
async def a_tool_raises() -> Facts:
    async def bad() -> str:
        raise RuntimeError("boom")

    tasks, died = await ran("1. bad()\n2. good()\n", {"bad": bad, "good": giving("fine")})
    return {"returned": died != "no end", "other_kept": tasks[2].observation is not None, "died": died}


@case("R16")
async def an_output_with_a_dollar() -> Facts:
    kept: list[Any] = []
    await ran(
        '1. first()\n2. second()\n3. keep("$1 and $2")\n',
        {"first": giving("ONE"), "second": giving("costs $1"), "keep": keeping(kept)},
    )
    return {"got": kept[0], "right": "ONE and costs $1"}


@case("R17")
async def a_price_and_an_object() -> Facts:
    text: list[Any] = []
    value: list[Any] = []
    await ran(
        '1. first()\n2. keep("budget is $100 or $1", "$1")\n',
        {"first": giving("OBS"), "keep": keeping(text)},
    )
    tools = {"first": giving({"k": [1, None, True]}), "keep": keeping(value)}
    await ran("1. first()\n2. keep($1)\n", tools)
    await ran('1. first()\n2. keep("got $1")\n', tools)
    first = text[0][0] if isinstance(text[0], list) else text[0]
    return {"text": str(first), "value": value[0], "inside": str(value[1])}


@case("C12")
async def several_and_nested_references() -> Facts:
    kept: list[Any] = []
    tools = {"one": giving(1), "two": giving(2), "keep": keeping(kept)}
    _, died = await ran(
        '1. one()\n2. two()\n3. keep("${1}+${2}")\n4. keep({"rows": [{"x": "${1}"}]})\n', tools
    )
    asked = Calls()

    async def sent(*args: Any) -> str:
        asked.made("sent")
        return "sent"

    await ran('1. one()\n2. sent("${1}", "${7}")\n', {"one": giving(1), "sent": sent})
    nested = next((one for one in kept if isinstance(one, dict)), None)
    return {
        "sum": next((one for one in kept if isinstance(one, str)), None),
        "nested": nested,
        "missing_called": asked["sent"] > 0,
        "died": died,
    }


if __name__ == "__main__":
    case.main()
