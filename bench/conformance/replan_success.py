"""Replan: the programs of the rows S, successes that are none and failures that forget."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, field_validator

from bench.conformance.case import Calls, Cases, Facts
from bench.conformance.replan_effects import AGAIN, reading
from bench.conformance.replan_harness import (
    Answers,
    Ran,
    diagnosis,
    plan,
    reflection,
    run,
    scripted,
    step,
    verdict,
)
from replan import Replan, TaskResult, tool

QUESTION = "Which account does Bob want?"
GIVES_UP = diagnosis("trigger_overall_reflection", "external_error", summary="only a person can")
ASKS = {
    **reflection(False),
    "problem_nature": "external",
    "ask": QUESTION,
    "improvement_suggestions": [QUESTION],
}


def raising(name: str, error: Exception, effect: Any = "reads") -> Any:
    @tool(name=name, effect=effect)
    def call() -> str:
        """Raise."""
        raise error

    return call


def told(result: TaskResult) -> str:
    """All that the end says."""
    failure = result.failure
    return "" if failure is None else failure.model_dump_json()


async def typed(kind: Any, answers: Answers) -> TaskResult[Any]:
    with tempfile.TemporaryDirectory() as folder:
        tools, db = [reading("look", 1)], Path(folder) / "replan.db"
        async with Replan(model=scripted(answers), tools=tools, db=db) as replan:
            return await replan.run("do it", output_type=kind)


async def a_no_beside_a_high_score() -> Facts:
    no = {**verdict(90), "is_successful": False, "failures": ["the amount is wrong"]}
    answers = {"execution_plan": plan(step("a", "look")), "evaluation": no, "overall_reflection": ASKS}
    ran = await run([reading("look", 1)], answers)
    return {"success": ran.result.is_success, "question": QUESTION in told(ran.result)}


async def none_is_an_answer() -> Facts:
    result = await typed(
        int | None, {"execution_plan": plan(step("a", "look")), "evaluation": verdict(95, None)}
    )
    return {"success": result.succeeded, "answer": result.output}


async def an_effect_left_out() -> Facts:
    answers = {
        "execution_plan": [plan(step("a", "pay"), step("b", "look", "a")), plan(step("c", "look"))],
        "step_reflection": diagnosis("replan", advice="go on without"),
        "overall_reflection": AGAIN,
    }
    tools = [raising("pay", RuntimeError("no funds"), "once"), reading("look", 1)]
    ran = await run(tools, answers, evaluation="steps")
    return {"success": ran.result.is_success}


class Person(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def whole(cls, name: str) -> str:
        if " " not in name:
            raise ValueError("give the first and the last name")
        return name


async def a_validator_refuses() -> Facts:
    async def with_names(*names: str) -> TaskResult[Any]:
        judged = [verdict(95, {"name": name}) for name in names]
        return await typed(Person, {"execution_plan": plan(step("a", "look")), "evaluation": judged})

    corrected = await with_names("Ann", "Ann Lee")
    wrong = await with_names(*["Ann"] * 9)
    return {"corrected": corrected.output == Person(name="Ann Lee"), "success": wrong.succeeded}


async def then_the_planner_is_gone() -> Facts:
    answers = {
        "execution_plan": [plan(step("a", "look"), step("b", "mail", "a")), *[RuntimeError("gone")] * 9],
        "step_reflection": GIVES_UP,
        "overall_reflection": {**AGAIN, "ask": QUESTION},
    }
    ran = await run([reading("look", 1), raising("mail", RuntimeError("no mailbox"))], answers)
    said = told(ran.result)
    kept = {"the step's failure": "no mailbox" in said, "the question": QUESTION in said}
    return {"kept": {**kept, "the output": 1 in ran.outputs.values()}}


async def an_independent_chain() -> Facts:
    answers = {
        "execution_plan": plan(
            step("a", "bad"), step("b", "look"), step("c", "look", "b", n=2), step("d", "look", "c", n=3)
        ),
        "step_reflection": GIVES_UP,
        "overall_reflection": reflection(False),
    }

    @tool(effect="reads")
    async def look(n: int = 0) -> int:
        """Look."""
        return n

    ran = await run([raising("bad", RuntimeError("boom")), look], answers)
    closed = {"succeeded", "failed", "skipped"}
    return {"pending": sum(one.status not in closed for one in ran.result.steps)}


async def shown(call: Any) -> tuple[Ran, str]:
    ran = await run([call], given=plan(step("a", call.__name__)))
    return ran, f"{ran.outputs.get('a', '')} {ran.reason}"


async def a_generator() -> Facts:
    @tool(effect="reads")
    def rows() -> Iterator[str]:
        """Rows."""
        yield from ("row 1", "row 2", "row 3")

    ran, seen = await shown(rows)
    return {"seen": seen.strip(), "died": ran.end}


async def no_json() -> Facts:
    seen = []
    for value in (float("nan"), {1: "one", "1": "uno"}):

        @tool(effect="reads")
        def readings(value: Any = value) -> Any:
            """Readings."""
            return value

        ran, said = await shown(readings)
        seen.append(said.split(": ")[-1])
    return {"seen": "; ".join(seen), "died": ran.end, "told": "NaN" in seen[0] and "two keys" in seen[1]}


async def another_type() -> Facts:
    @tool(effect="reads")
    def how_many() -> int:
        """How many."""
        return "many"  # type: ignore[return-value]

    ran, seen = await shown(how_many)
    return {"seen": seen.strip(), "died": ran.end, "told": not ran.result.is_success}


async def nothing_selected() -> Facts:
    given: list[str] = []

    @tool(effect="reads")
    def weather(city: str) -> str:
        """The weather."""
        given.append(city)
        return "rain"

    answers = {
        "execution_plan": plan(step("a", "look"), step("b", "weather", city="${a.output.town}")),
        "step_reflection": diagnosis("retry_with_params", "parameter_error", city="Oslo"),
        "evaluation": verdict(95),
    }
    ran = await run([reading("look", {"city": "Oslo"}), weather], answers)
    return {"given": given, "success": ran.result.is_success}


async def a_person_has_answered() -> Facts:
    said = "take the second Ann"
    asked = {**AGAIN, "should_replan": False, "ask": "Which Ann is meant?"}
    answers = {
        "execution_plan": [plan(step("a", "look")), plan(step("b", "mail"))],
        "evaluation": [verdict(20), verdict(95), verdict(95)],
        "overall_reflection": [asked, AGAIN, AGAIN],
    }
    model = scripted(answers)
    with tempfile.TemporaryDirectory() as folder:
        tools, db = [reading("look", 1), reading("mail", "sent")], Path(folder) / "replan.db"
        async with Replan(model=model, tools=tools, db=db, interactive=True) as replan:
            waiting = await replan.run("Write to Ann")
            await replan.answer(waiting.task_id, said, by="me")
            await replan.resume(waiting.task_id)
    judged = [request for request in model.requests if request.role == "evaluation"]
    last = (
        "" if len(judged) < 2 else judged[-1].instructions + "".join(turn.text for turn in judged[-1].turns)
    )
    return {"shown": said in last and "Which Ann is meant?" in last}


async def a_step_left_out() -> Facts:
    @tool
    def label(n: int) -> str:
        """Make a label."""
        return f"label {n}"

    answers = {
        "execution_plan": [plan(step("a", "label", n=1)), plan(step("b", "look"))],
        "evaluation": [verdict(20), verdict(95)],
        "overall_reflection": AGAIN,
    }
    with tempfile.TemporaryDirectory() as folder:
        tools, db = [label, reading("look", 1)], Path(folder) / "replan.db"
        async with Replan(model=scripted(answers), tools=tools, db=db) as replan:
            result = await replan.run("do it")
            output = await replan.output(result.task_id, "a")
    calls = [call for one in result.steps if one.step_id == "a" for call in one.calls]
    return {"call": len(calls) == 1, "output": output == "label 1"}


class Short(BaseModel):
    name: str


class Long(BaseModel):
    name: str
    street: str


async def after_another_tool() -> Facts:
    @tool(effect="reads")
    def short() -> Short:
        """A person."""
        raise RuntimeError("the register is closed")

    @tool(effect="reads")
    def long() -> Long:
        """A person, with the street."""
        return Long(name="Ann", street="High Street")

    @tool(effect="reads")
    def find(street: str) -> str:
        """Find a street."""
        if street != "High Street":
            raise ValueError(f"there is no {street}")
        return "found"

    answers = {
        "execution_plan": plan(step("a", "short"), step("b", "find", "a", street="Ann's")),
        "step_reflection": [
            diagnosis("retry_with_tool", "tool_error", tool_id="long", parameters={}),
            diagnosis("repair_step", "dependency_error", hint="use the street"),
        ],
        "step_repair": plan(step("b", "find", "a", street="${a.output.street}")),
        "evaluation": verdict(95),
    }
    ran = await run([short, long, find], answers)
    return {"success": ran.result.is_success}


async def a_service_that_is_gone() -> Facts:
    @tool
    def work(n: int) -> str:
        """Work."""
        return "done"

    answers = {
        "execution_plan": plan(
            step("first", "work", n=1), step("pay", "pay", "first"), step("last", "work", "pay", n=2)
        ),
        "step_reflection": [
            diagnosis("verify_outcome", tool_id="payments", parameters={}),
            diagnosis("settle_outcome", happened=False, evidence="[]"),
            *[GIVES_UP] * 5,
        ],
    }
    gone = TimeoutError("no answer in 30 s")
    ran = await run([work, raising("pay", gone, "once"), reading("payments", [])], answers)
    failure = ran.result.failure
    parts = (
        {}
        if failure is None
        else {"done": failure.done, "undone": failure.undone, "in doubt": failure.in_doubt}
    )

    def steps(lines: Any) -> list[str]:
        return [found.group(1) for line in lines if (found := re.search(r"step '(\w+)'", line))]

    return {"told": {name: steps(lines) for name, lines in parts.items()}}


async def two_of_twelve() -> Facts:
    @tool
    def send(n: int) -> str:
        """Send a letter."""
        if n in (3, 7):
            raise RuntimeError(f"letter {n} is lost")
        return f"letter {n} is sent"

    used: list[int] = []

    @tool(effect="reads")
    def count(letters: list[str]) -> int:
        """Count letters."""
        used.append(len(letters))
        return len(letters)

    each = {**step("send", "send", n="${item}"), "for_each": list(range(12))}
    answers = {
        "execution_plan": [plan(each), plan(step("n", "count", letters="${send.output}"))],
        "step_reflection": diagnosis("replan", "tool_error", advice="go on with the ten"),
        "overall_reflection": AGAIN,
        "evaluation": verdict(95),
    }
    model = Calls()

    def judge(request: Any) -> dict[str, Any]:
        text = request.instructions + "".join(turn.text for turn in request.turns)
        for n in (3, 7):
            model[f"letter {n}"] += f"letter {n} is lost" in text
        reason = "letters that get lost need not be sent again"
        return {**verdict(95), "left_out_effects": [{"step": "send", "not_needed": reason}]}

    ran = await run([send, count], {**answers, "evaluation": judge})
    shown_both = sum(model[f"letter {n}"] > 0 for n in (3, 7))
    return {"kept": max(used, default=0), "told": shown_both, "died": ran.end}


async def nothing_can_be_done() -> Facts:
    calls = Calls()

    @tool
    def pay(n: int) -> str:
        """Pay."""
        calls.made("pay")
        return "paid"

    reason = "there is no tool that reads the weather"
    ran = await run([pay], {"execution_plan": {"steps": [], "cannot": reason}, "evaluation": verdict(95)})
    return {"effects": calls["pay"], "success": ran.result.is_success, "reason": reason in told(ran.result)}


def register(case: Cases) -> None:
    """Put these among Replan's cases."""
    for row, program in {
        "S1": a_no_beside_a_high_score,
        "S2": none_is_an_answer,
        "S3": an_effect_left_out,
        "S4": a_validator_refuses,
        "S5": then_the_planner_is_gone,
        "S6": an_independent_chain,
        "S7": a_generator,
        "S9": no_json,
        "S10": another_type,
        "S11": nothing_selected,
        "S12": a_person_has_answered,
        "S13": a_step_left_out,
        "S14": after_another_tool,
        "S15": a_service_that_is_gone,
        "S16": two_of_twelve,
        "S17": nothing_can_be_done,
    }.items():
        case(row)(program)
