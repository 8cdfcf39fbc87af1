"""Replan: the same programs, as far as they need no recovery; those that do are in `replan_recovery`."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.conformance import mcp_answers, mcp_faults, replan_effects, replan_recovery, replan_success
from bench.conformance.agents import Asked, Script
from bench.conformance.case import Calls, Cases, Facts, ended
from bench.conformance.kill import killed_and_resumed
from bench.conformance.replan_harness import plan, run, scripted, step, verdict
from replan import Replan, tool
from replan.core.events import CallCompleted, CallFailed, CallStarted
from replan.tools.mcp import McpSource

case = Cases(["replan"])
for _programs in (replan_recovery, replan_effects, replan_success):
    _programs.register(case)


def answering(calls: Calls, name: str, output: Any = "ok", secs: float = 0.0, effect: Any = "reads") -> Any:
    @tool(name=name, effect=effect)
    async def call(n: int = 0) -> Any:
        """Answer."""
        calls.made(name)
        await asyncio.sleep(secs)
        return output

    return call


def raising(calls: Calls, name: str, error: Callable[[int], Exception | None], secs: float = 0.0) -> Any:
    """A reading tool; `error`: what its nth call raises, None for an answer."""

    @tool(name=name, effect="reads")
    async def call() -> str:
        """Raise."""
        nth = calls.made(name)
        await asyncio.sleep(secs)
        if (fault := error(nth)) is not None:
            raise fault
        return "there again"

    return call


@tool(effect="reads")
def echo(value: Any, more: Any = None) -> Any:
    """Give back what was given."""
    return value


@case("R1")
async def one_fails_at_first() -> Facts:
    calls = Calls()
    tools = [
        answering(calls, "pay", "paid", effect="once"),
        answering(calls, "slow", "slow result", 0.3),
        raising(calls, "failing", lambda nth: ConnectionError("gone") if nth == 1 else None, 0.1),
    ]
    ran = await run(tools, given=plan(step("p", "pay"), step("s", "slow"), step("f", "failing")))
    kept = set(map(str, ran.outputs.values()))
    return {
        "died": "",
        "kept": len(kept & {"paid", "slow result"}),
        "pay": calls["pay"],
        "slow": calls["slow"],
        "failing": calls["failing"],
        "resumed": ran.result.is_success,
    }


@case("R2")
async def no_layer_is_waited_for() -> Facts:
    started: dict[str, float] = {}

    @tool(effect="reads")
    async def work(name: str, secs: float) -> str:
        """Work for a while."""
        started[name] = time.perf_counter()
        await asyncio.sleep(secs)
        return name

    steps = plan(
        step("a", "work", name="a", secs=0.1),
        step("b", "work", name="b", secs=1.0),
        step("c", "work", "a", name="c", secs=0.1),
        step("d", "work", "c", name="d", secs=0.1),
    )
    with tempfile.TemporaryDirectory() as folder:
        async with Replan(tools=[work], db=Path(folder) / "replan.db", model=scripted({})) as replan:
            zero = time.perf_counter()
            await replan.run("do it", plan=steps, evaluation="steps")
            secs = time.perf_counter() - zero
    return {"c_at": round(started["c"] - zero, 2), "secs": round(secs, 2)}


@case("R4")
async def one_of_three_raises() -> Facts:
    calls = Calls()
    tools = [
        answering(calls, "pay", "paid", effect="once"),
        answering(calls, "slow", "slow result", 0.3),
        raising(calls, "failing", lambda nth: RuntimeError("boom"), 0.1),
    ]
    ran = await run(tools, given=plan(step("p", "pay"), step("s", "slow"), step("f", "failing")))
    kept = set(map(str, ran.outputs.values()))
    return {"died": "", "kept": len(kept & {"paid", "slow result"}), "pay": calls["pay"]}


@case("R6")
async def an_unknown_tool() -> Facts:
    calls = Calls()
    answers = {
        "execution_plan": [plan(step("a", "get_wether")), plan(step("a", "get_weather"))],
        "evaluation": verdict(95),
    }
    tools = [answering(calls, "get_weather", "sunny"), answering(calls, "send", effect="once")]
    ran = await run(tools, answers)
    said = ran.model.requests[1].turns[-1].text
    told = "does not exist" in said and "get_weather" in said
    return {"died": "", "told": told, "went_on": ran.result.is_success and calls["get_weather"] == 1}


@case("R14")
async def a_dependency_fails() -> Facts:
    calls = Calls()
    tools = [raising(calls, "bad", lambda nth: RuntimeError("boom")), answering(calls, "after")]
    ran = await run(tools, given=plan(step("a", "bad"), step("b", "after", "a")))
    reasons = [one.reason or "" for one in ran.result.steps if one.step_id == "b"]
    return {"dependent_ran": calls["after"] > 0, "reason": "failed" in reasons[0], "died": ""}


@case("R15")
async def a_tool_raises() -> Facts:
    calls = Calls()
    tools = [raising(calls, "bad", lambda nth: RuntimeError("boom")), answering(calls, "good", "fine")]
    ran, died = await ended(run(tools, given=plan(step("a", "bad"), step("b", "good"))))
    return {
        "returned": ran is not None,
        "other_kept": bool(ran) and ran.outputs.get("b") == "fine",
        "died": died,
    }


@case("R16")
async def an_output_with_a_reference() -> Facts:
    calls = Calls()
    tools = [answering(calls, "first", "ONE"), answering(calls, "second", "costs ${a.output}"), echo]
    steps = plan(
        step("a", "first"), step("b", "second"), step("c", "echo", value="${a.output} and ${b.output}")
    )
    ran = await run(tools, given=steps)
    return {"got": ran.outputs["c"], "right": "ONE and costs ${a.output}"}


@case("R17")
async def a_price_and_an_object() -> Facts:
    calls = Calls()
    tools = [answering(calls, "first", {"k": [1, None, True]}), echo]
    steps = plan(
        step("a", "first"),
        step("b", "echo", value="budget is $100 or $1", more="${a.output}"),
        step("c", "echo", value="${a.output}"),
        step("d", "echo", value="got ${a.output}"),
    )
    ran = await run(tools, given=steps)
    return {"text": ran.outputs["b"], "value": ran.outputs["c"], "inside": ran.outputs["d"]}


# ── C1: killed and resumed ────────────────────────────────────────────────────


async def drive(folder: Path, resume: bool) -> None:
    """One process: two effects that leave a line in a file, one reading that is cut off, then fails, then works."""

    def effect(name: str, secs: float) -> Any:
        @tool(name=name, effect="once")
        async def call() -> str:
            """Leave a line."""
            with (folder / "effects").open("a") as file:
                file.write(f"{name}\n")
            await asyncio.sleep(secs)
            return name

        return call

    calls = Calls()
    fails = raising(calls, "bad", lambda nth: ConnectionError("gone") if nth == 1 else None, 0.4)
    tools = [effect("one", 0.05), effect("two", 0.1), fails]
    steps = plan(step("a", "one"), step("b", "two"), step("c", "bad"))
    async with Replan(tools=tools, db=folder / "replan.db", model=scripted({})) as replan:
        if resume:
            result = await replan.resume("task_c1")
        else:
            result = await replan.run("do it", plan=steps, evaluation="steps", task_id="task_c1")
    sys.exit(not result.is_success)


@case("C1")
async def killed() -> Facts:
    return await killed_and_resumed("bench.conformance.replan_cases", resumes=1)


@case("C9")
async def a_plan_and_a_verdict_in_a_fence() -> Facts:
    def fenced(said: Any) -> str:
        return f"Here it is:\n```json\n{json.dumps(said)}\n```"

    calls = Calls()
    answers = {
        "execution_plan": fenced(plan(step("a", "work"))),
        "evaluation": fenced(verdict(95)),
    }
    ran = await run([answering(calls, "work")], answers)
    return {"read": ran.result.is_success, "model_calls": ran.model_calls, "died": ran.end}


@case("C12")
async def several_and_nested_references() -> Facts:
    calls = Calls()
    tools = [answering(calls, "one", 1), answering(calls, "two", 2), answering(calls, "obj", {"n": 1}), echo]

    @tool(effect="reads")
    def sent(value: Any) -> str:
        """Note that it was called."""
        calls.made("sent")
        return "sent"

    steps = plan(
        step("a", "one"),
        step("b", "two"),
        step("o", "obj"),
        step("c", "echo", value="${a}+${b}"),
        step("d", "echo", value={"rows": [{"x": "${a}"}]}),
        step("e", "sent", value="is ${o.output.m}"),
    )
    ran = await run([*tools, sent], given=steps)
    return {
        "sum": ran.outputs.get("c"),
        "nested": ran.outputs.get("d"),
        "missing_called": calls["sent"] > 0,
        "died": "",
    }


@case("C19")
async def cancelled_in_mid_tool() -> Facts:
    calls, started = Calls(), asyncio.Event()

    @tool(effect="reads")
    async def hung() -> str:
        """Take long."""
        started.set()
        for _ in range(60):
            calls["ticks"] += 1
            await asyncio.sleep(0.05)
        return "late"

    reader = asyncio.ensure_future(
        run([hung, answering(calls, "after")], given=plan(step("a", "hung"), step("b", "after", "a")))
    )
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


@case("C20")
async def faults_in_a_stream() -> Facts:
    async def end_of(tools: list[Any], answers: dict[str, Any]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            model = scripted(answers)
            async with Replan(model=model, tools=tools, db=Path(folder) / "replan.db") as replan:
                task_id = await replan.submit("do it")

                async def read() -> list[str]:
                    return [record.type async for record in replan.watch(task_id)]

                kinds, died = await ended(read())
        last = {"task_completed", "task_failed", "task_cancelled", "task_timed_out"}
        ends = [kind for kind in kinds or () if kind in last]
        return died or (ends[0] if len(ends) == 1 else f"{len(ends)} ends")

    calls = Calls()
    bad = raising(calls, "bad", lambda nth: RuntimeError("boom"))
    by_tool = await end_of([bad], {"execution_plan": plan(step("a", "bad"))})
    by_model = await end_of([bad], {"execution_plan": RuntimeError("the model is gone")})
    return {"ends": {"tool": by_tool, "model": by_model}}


@case("C22")
async def cancelled_then_the_next_task() -> Facts:
    calls = Calls()
    tools = [
        answering(calls, "quick", "quick result", effect="once"),
        answering(calls, "hung", "late", 30, effect="once"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        async with Replan(model=scripted({}), tools=tools, db=Path(folder) / "replan.db") as replan:
            steps = plan(step("q", "quick"), step("h", "hung"))
            task_id = await replan.submit("do it", plan=steps, evaluation="steps")
            async for record in replan.watch(task_id):
                if record.type == "step_completed":
                    break
            await replan.cancel(task_id)
            result = await replan.wait(task_id)
            records = await replan.history(task_id)
            _, died = await ended(replan.run("again", plan=plan(step("q", "quick")), evaluation="steps"))
    events = [record.event for record in records]
    started = {event.call_key for event in events if isinstance(event, CallStarted)}
    closed = {event.call_key for event in events if isinstance(event, CallCompleted | CallFailed)}
    known = any(one.step_id == "q" and one.output == "quick result" for one in result.steps)
    return {"died": died, "open_calls": len(started - closed), "quick_known": known}


@case("C25")
async def a_limit_of_none() -> Facts:
    calls = Calls()
    answers = {"execution_plan": plan(step("a", "work")), "evaluation": verdict(95)}
    ran = await run([answering(calls, "work")], answers, budget={"max_llm_calls": 0})
    return {"model_calls": ran.model_calls, "died": ran.end}


# ── C23: tools of an MCP server ───────────────────────────────────────────────


class Connected:
    """Each run is a task of its own, whose plan makes the calls of the script; one source for all."""

    def __init__(self, replan: Replan, script: Script) -> None:
        self._replan, self._script = replan, script

    async def run(self) -> None:
        said, results = self._script(Asked(1, ())), []
        for name in said:
            steps = plan(step("one", name))
            result = await self._replan.run("do it", plan=steps, evaluation="steps")
            records = await self._replan.history(result.task_id)
            failed = [
                record.event.error.message for record in records if isinstance(record.event, CallFailed)
            ]
            reason = result.failure.reason if result.failure else ""
            output = str(await self._replan.output(result.task_id, "one")) if result.is_success else ""
            results.append(output or " / ".join([*failed, reason]))
        self._script(Asked(2, results))


@asynccontextmanager
async def connected(url: str, script: Script) -> AsyncIterator[Connected]:
    deadline = float(mcp_faults.DEADLINE_SECS)
    shop = McpSource(url, name="shop", tools={"look": "reads"}, timeout_secs=deadline)
    with tempfile.TemporaryDirectory() as folder:
        async with Replan(tools=[shop], db=Path(folder) / "replan.db", model=scripted({})) as replan:
            yield Connected(replan, script)


mcp_faults.register(case, connected, option=f"timeout_secs={mcp_faults.DEADLINE_SECS}")
mcp_answers.register(case, connected, parts=True)


if __name__ == "__main__":
    case.main()
