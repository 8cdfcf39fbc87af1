"""CrewAI: an agent that plans, observes and replans, with a model that answers from a script."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")

from crewai import Agent
from crewai.agent.planning_config import PlanningConfig
from crewai.llms.base_llm import BaseLLM
from crewai.utilities.planning_types import StepObservation

from bench.conformance.case import Calls, Cases, Facts, ended

case = Cases(["crewai"])


def step(number: int, does: str, *needs: int) -> dict[str, Any]:
    return {"step_number": number, "description": does, "tool_to_use": None, "depends_on": list(needs)}


def seen(**said: Any) -> str:
    return json.dumps({"step_completed_successfully": True, "remaining_plan_still_valid": True, **said})


class Scripted(BaseLLM):
    """Plans, step results and observations from scripts; the last plan of the list goes on for ever."""

    plans: list[Any]
    observe: Callable[[str], Any]
    calls: Any
    ran: list[str]
    """What the steps were asked to do, in order."""
    results: dict[str, str]
    """What lies on each step when the answer is put together: by what the step was to do, its result."""

    raises: str = ""
    """The step that raises."""

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, tools: Any = None, *args: Any, **more: Any) -> Any:
        text = messages if isinstance(messages, str) else "\n".join(str(one["content"]) for one in messages)
        if tools and "create_reasoning_plan" in str(tools):
            said = self.plans[min(self.calls["plan"], len(self.plans) - 1)]
            self.calls.made("plan")
            return self._said(said if isinstance(said, Exception) else json.dumps(said))
        if more.get("response_model") is StepObservation:
            self.calls.made("observe")
            return self._said(self.observe(self.ran[-1]))
        if step_of := re.search(r"## Current Step\s+(do-\w+)", text):
            self.calls.made("step")
            self.ran.append(step_of[1])
            if step_of[1] == self.raises:
                raise RuntimeError("boom")
            return f"Thought: done\nFinal Answer: result of {step_of[1]}"
        if "Synthesize these results" not in text:  # a planner that is asked once more, in words
            self.calls.made("plan in words")
            return self._said(self.plans[-1] if isinstance(self.plans[-1], Exception) else "no plan")
        self.results.update(re.findall(r"Step \d+ \((do-\w+)\):\s+(.*)", text))
        return "Thought: done\nFinal Answer: all of it"

    def _said(self, said: Any) -> Any:
        if isinstance(said, Exception):
            raise said
        return said


async def planned(model: Scripted, **config: Any) -> str:
    """Run an agent that plans; what the run died of."""
    agent = Agent(
        role="worker",
        goal="do it",
        backstory="works",
        llm=model,
        planning_config=PlanningConfig(**config),
        verbose=False,
    )
    _, died = await ended(asyncio.to_thread(agent.kickoff, "do it"), 60)
    return died


def scripted(plans: Sequence[Any], observe: Callable[[str], Any]) -> Scripted:
    return Scripted(model="scripted", plans=list(plans), observe=observe, calls=Calls(), ran=[], results={})


def plan(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"plan": "a plan", "steps": list(steps), "ready": True}


@case("R13")
async def numbers_after_a_replan() -> Facts:
    """The third step fails and the observer wants a new plan, whose steps are counted from 1, as the prompt asks."""
    first = plan(step(1, "do-a"), step(2, "do-b", 1), step(3, "do-c", 2), step(4, "do-x", 3))
    second = plan(step(1, "do-d"), step(2, "do-e", 1))

    def observe(does: str) -> str:
        if does == "do-c":
            return seen(
                step_completed_successfully=False, needs_full_replan=True, replan_reason="another way"
            )
        return seen()

    model = scripted([first, second], observe)
    died = await planned(model)
    return {"new_runs": model.ran.count("do-d"), "old_kept": "do-a" in model.results, "died": died}


@case("R14", option='reasoning_effort="low"')
async def a_dependency_fails() -> Facts:
    """The first step raises; the second says that it depends on it."""
    model = scripted([plan(step(1, "do-a"), step(2, "do-b", 1))], lambda does: seen())
    model.raises = "do-a"
    died = await planned(model, reasoning_effort="low")
    return {"dependent_ran": "do-b" in model.ran, "reason": False, "died": died}


@case("R14", option="the planner gone on replanning")
async def a_dependency_fails_and_no_new_plan() -> Facts:
    def observe(does: str) -> str:
        return seen(step_completed_successfully=does != "do-a")

    first = plan(step(1, "do-a"), step(2, "do-b", 1))
    model = scripted([first, RuntimeError("the planner is gone")], observe)
    died = await planned(model)
    return {"dependent_ran": "do-b" in model.ran, "reason": False, "died": died}


@case("C8")
async def the_planner_is_gone() -> Facts:
    def observe(does: str) -> str:
        if does == "do-b":
            return seen(
                step_completed_successfully=False, needs_full_replan=True, replan_reason="another way"
            )
        return seen()

    first = plan(step(1, "do-a"), step(2, "do-b", 1), step(3, "do-c", 2))
    model = scripted([first, RuntimeError("the planner is gone")], observe)
    died = await planned(model)
    return {"model_calls": model.calls.total(), "died": died, "partial": "do-a" in model.results}


@case("C8", option="a planner that never says it is ready")
async def the_planner_is_never_ready() -> Facts:
    model = scripted([{**plan(step(1, "do-a")), "ready": False}], lambda does: seen())
    died = await planned(model)
    return {"model_calls": model.calls.total(), "died": died, "partial": "do-a" in model.results}


@case("C10")
async def a_failed_observer() -> Facts:
    """The observer cannot be had: is the step then taken as done and the plan as valid?"""
    model = scripted([plan(step(1, "do-a"), step(2, "do-b", 1))], lambda does: RuntimeError("no observer"))
    died = await planned(model)
    return {"taken_as_done": "do-b" in model.ran, "replans": model.calls["plan"] - 1, "died": died}


if __name__ == "__main__":
    case.main()
