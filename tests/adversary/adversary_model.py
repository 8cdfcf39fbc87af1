"""A scripted model that does its worst: always retries, always replans, contradicts itself, is never done.

Each case draws a nature: for each question one habit (then it does that for ever) or several (then it changes its
mind), and how often an answer is no answer at all.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adversary_plans import Drafts, renamed
from adversary_tools import word

from replan.core.calls.site import READING
from replan.core.events import (
    CallCompleted,
    CallFailed,
    CallStarted,
    PlanGenerated,
    PlanUpdated,
    Record,
    StepCompleted,
    StepFailed,
)
from replan.core.ids import canonical
from replan.core.reflection import STRATEGY_TYPES
from replan.core.types import JsonObject, ToolSpec, Usage
from replan.errors import ModelUnavailable
from replan.ports import ModelReply, ModelRequest

HABITS: dict[str, tuple[str, ...]] = {
    "tool_selection": ("all", "all", "some", "unknown", "low", "none"),
    "execution_plan": (
        "new", "new", "new", "fresh", "fresh", "the same", "the same under new ids", "in turns", "wrong", "empty",
    ),
    "step_repair": ("new", "new", "fresh", "the same", "wrong", "several"),
    "step_reflection": (
        "same parameters", "fresh parameters", "fresh parameters", "parameters", "bad parameters", "placeholders",
        "unknown tool", "failed tool", "tool", "tool", "fresh tool", "repair", "repair", "replan", "overall", "stop",
        "verify", "verify", "settle yes", "settle no", "contradiction",
    ),
    "in doubt": ("read", "read", "read", "settle yes", "settle no", "settle no", "overall", "repair", "verify", "fresh parameters"),
    "overall_reflection": (
        *STRATEGY_TYPES, *STRATEGY_TYPES, "wrong ids", "no strategy", "give up", "done", "outside", "contradiction",
    ),
    "evaluation": (
        "30", "30 with news", "30 with news", "random", "random with news", "contradiction", "out of range", "done", "done",
    ),
}  # fmt: skip
"""What it may do for ever, by question."""
SLOW_HABITS = {"evaluation": ("creeps by 0.1", "creeps by 1", "creeps by 3")}
"""These take many rounds; drawn rarely."""
NOISE = (
    "nothing", "nonsense", "a list", "cut", "refusal", "two objects", "null", "deep", "strange signs",
    "out of reach", "out of reach for now", "error", "cancelled", "exit",
)  # fmt: skip
CATEGORIES = {
    "retry_with_params": "parameter_error",
    "retry_with_tool": "tool_error",
    "repair_step": "decomposition_error",
}


@dataclass(frozen=True)
class Nature:
    """What one model is like."""

    habits: dict[str, tuple[str, ...]]
    noise: float = 0.0
    fenced: float = 0.0
    delays: tuple[float, ...] = (0.0,)
    style: Literal["standard", "small"] = "standard"
    most: int = 5_000
    """Answers after which it only fails: then something goes on for ever."""


def nature(rng: random.Random) -> Nature:
    """One of them."""
    pure = rng.random() < 0.4
    habits = {}
    for schema, all_of_them in HABITS.items():
        many = 1 if pure or rng.random() < 0.3 else rng.randint(2, 5)
        habits[schema] = tuple(rng.choices(all_of_them, k=many))
    if rng.random() < 0.5:  # else hardly any task would have a plan
        habits["execution_plan"] = tuple(rng.choices(("new", "fresh"), k=2))
    if rng.random() < 0.02:
        habits["evaluation"] = (rng.choice(SLOW_HABITS["evaluation"]),)
    return Nature(
        habits=habits,
        noise=rng.choice([0.0, 0.0, 0.0, 0.0, 0.05, 0.2, 0.5, 1.0 if rng.random() < 0.3 else 0.1]),
        fenced=rng.choice([0.0, 0.0, 0.3]),
        delays=rng.choice([(0.0,), (0.0,), (0.0,), (0.0, 0.5), (0.5,), (50.0,), (0.0, 0.5, 50.0, 1e6)]),
        style="small" if rng.random() < 0.2 else "standard",
    )


def inventive(rng: random.Random) -> Nature:
    """One that never says the same again, and answers at once: only the guard can end its tasks."""
    rounds = rng.choice([("full_replan",), ("replan_from_step",), STRATEGY_TYPES, ("no strategy",)])
    return Nature(
        habits={
            "tool_selection": ("all",),
            "execution_plan": ("fresh",),
            "step_repair": ("fresh",),
            "step_reflection": tuple(
                rng.choices(
                    ("fresh parameters", "fresh parameters", "fresh tool", "repair", "replan", "overall"),
                    k=rng.randint(1, 3),
                )
            ),
            "in doubt": ("read", "settle no", "settle yes"),
            "overall_reflection": rounds,
            "evaluation": (
                rng.choice(["30 with news", "30 with news", "random with news", *SLOW_HABITS["evaluation"]]),
            ),
        },
    )


class Seen:
    """What the model could know of the task, read from its log."""

    def __init__(self) -> None:
        self.used: list[str] = []
        self.steps: dict[str, Any] = {}
        self.finished: list[str] = []
        self.failed: list[str] = []
        self.call: CallFailed | None = None
        self.given: dict[str, JsonObject] = {}
        self.reading = ""
        """What was read last about a call in doubt, as JSON."""
        self._read = 0

    def read(self, records: Sequence[Record]) -> None:
        for record in records[self._read :]:
            match record.event:
                case PlanGenerated(plan=plan) | PlanUpdated(plan=plan):
                    self.steps = {step.step_id: step for step in plan.steps}
                    self.used += [name for name in self.steps if name not in self.used]
                case StepCompleted(step_id=name):
                    self.finished.append(name)
                case StepFailed(step_id=name):
                    self.failed.append(name)
                case CallStarted(call_key=key, parameters=parameters):
                    self.given[key] = parameters
                case CallCompleted(action_id=str() as action, output=output) if action.startswith(READING):
                    self.reading = canonical(output)
                case CallFailed() as failed:
                    self.call = failed
        self._read = len(records)


def _about(request: ModelRequest) -> str:
    """Which habit answers: a call in doubt is another question than a failed one."""
    asked = str(request.json_schema) if request.schema_name == "step_reflection" else ""
    return "in doubt" if "verify_outcome" in asked or "settle_outcome" in asked else request.schema_name


class Adversary:
    """A `ports.Model`. `asked` counts its answers, `closed` is never needed."""

    def __init__(
        self,
        of: Nature,
        rng: random.Random,
        specs: Sequence[ToolSpec],
        records: Callable[[], Sequence[Record]],
    ) -> None:
        self.name = "adversary"
        self.style = of.style
        self.asked = 0
        self._nature = of
        self._rng = rng
        self._specs = list(specs)
        self._records = records
        self._seen = Seen()
        self._drafts = Drafts(rng, specs)
        self._plans: list[JsonObject] = []
        self._repairs: list[JsonObject] = []
        self._score = (
            rng.uniform(0, 40) if "creeps by 0.1" not in of.habits["evaluation"] else rng.uniform(60, 79)
        )

    async def aclose(self) -> None:
        pass

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        self.asked += 1
        rng = self._rng
        if delay := rng.choice(self._nature.delays):
            await asyncio.sleep(delay)
        elif rng.random() < 0.9:
            await asyncio.sleep(0)  # what was recorded in this turn is in the log then
        if self.asked > self._nature.most:
            raise ModelUnavailable("it was asked too often")
        self._seen.read(self._records())
        noise = rng.choice(NOISE) if rng.random() < self._nature.noise else ""
        text = self._noisy(noise, json.dumps(self._answer(_about(request))))
        if not noise and rng.random() < self._nature.fenced:
            text = f"Here it is:\n```json\n{text}\n```\nI hope that it helps."
        if on_text is not None:
            on_text(text)
        asked = len(request.instructions) + sum(len(turn.text) for turn in request.turns)
        usage = Usage(llm_calls=1, input_tokens=asked // 4, output_tokens=len(text) // 4, cost_usd=0.01)
        return ModelReply(text=text, model=self.name, usage=usage)

    def _noisy(self, kind: str, text: str) -> str:
        match kind:
            case "nothing":
                return ""
            case "nonsense":
                return f"{word(self._rng)} {word(self._rng)} }}{{"
            case "a list":
                return f"[{text}, {text}, 1]"
            case "cut":
                return text[: len(text) // 2]
            case "refusal":
                return "I am sorry, but I cannot help with that."
            case "two objects":
                return f'{text} or rather {{"steps": 3, "should_replan": "perhaps"}}'
            case "null":
                return "null"
            case "deep":
                return "[" * 3_000 + "]" * 3_000
            case "strange signs":
                return text.replace("e", "\ud800\x00", 3)
            case "out of reach":
                raise ModelUnavailable("connection refused")
            case "out of reach for now":
                raise ModelUnavailable("overloaded", transient=True)
            case "error":
                raise RuntimeError("the library broke")
            case "cancelled":
                raise asyncio.CancelledError
            case "exit":
                raise SystemExit(3)
        return text

    def _answer(self, schema: str) -> JsonObject:
        habit = self._rng.choice(self._nature.habits[schema])
        if schema == "in doubt" and habit.startswith("settle") and not self._seen.reading:
            habit = "read"
        match schema:
            case "tool_selection":
                return self._selection(habit)
            case "execution_plan":
                return self._plan(habit)
            case "step_repair":
                return self._repair(habit)
            case "step_reflection" | "in doubt":
                return self._reflection(habit)
            case "overall_reflection":
                return self._overall(habit)
        return self._evaluation(habit)

    # ── plans ──

    def _selection(self, habit: str) -> JsonObject:
        rng = self._rng
        chosen = self._specs if habit != "some" else rng.sample(self._specs, rng.randint(1, len(self._specs)))
        names = [spec.id for spec in chosen]
        if habit == "unknown":
            names = [word(rng)]
        score = 10 if habit == "low" else 95
        tools = (
            []
            if habit == "none"
            else [{"tool_id": name, "score": score, "reason": word(rng)} for name in names]
        )
        return {"tools": tools, "changes_summary": word(rng), "task_type": rng.choice(["default", word(rng)])}

    def _plan(self, habit: str) -> JsonObject:
        rng, drafts, seen = self._rng, self._drafts, self._seen
        size = rng.choice([1, 1, 2, 2, 3, 4, 6])
        match habit:
            case "the same" if self._plans:
                return self._plans[0]
            case "the same under new ids" if self._plans:
                return renamed(self._plans[0], drafts)
            case "in turns" if len(self._plans) > 1:
                return renamed(self._plans[len(self._plans) % 2], drafts)
            case "wrong" if rng.random() < 0.9:
                return drafts.wrong_plan(size, seen.used)
            case "empty" if rng.random() < 0.7:
                return {"steps": []}
        known = [name for name in dict.fromkeys(seen.finished) if rng.random() < 0.5]
        made = drafts.plan(size, known=known[-3:], fresh=habit == "fresh")
        if seen.failed and rng.random() < 0.15:  # a helped step may be restated
            made["steps"].append(drafts.step(step_id=rng.choice(seen.failed), fresh=habit == "fresh"))
        self._plans.append(made)
        return made

    def _repair(self, habit: str) -> JsonObject:
        rng, drafts, seen = self._rng, self._drafts, self._seen
        name = seen.call.step_id if seen.call is not None else "s1"
        if habit == "the same" and name in seen.steps:
            return seen.steps[name].model_dump(mode="json")  # type: ignore[no-any-return]
        if habit == "wrong":
            return drafts.wrong_plan(1, seen.used)["steps"][0]  # type: ignore[no-any-return]
        if habit == "several":
            return drafts.plan(2)
        known = [one for one in dict.fromkeys(seen.finished) if rng.random() < 0.5]
        return drafts.step(known[-3:], fresh=habit == "fresh", step_id=name)

    # ── diagnoses ──

    def _reflection(self, habit: str) -> JsonObject:
        rng, drafts, call = self._rng, self._drafts, self._seen.call
        failed = next((spec for spec in self._specs if call is not None and spec.id == call.tool_id), None)
        tool, other = failed or rng.choice(self._specs), rng.choice(self._specs)
        kind: str
        data: Any
        match habit:
            case "same parameters":
                kind, data = "retry_with_params", self._seen.given.get(call.call_key, {}) if call else {}
            case "fresh parameters" | "parameters" | "bad parameters" | "placeholders":
                kind = "retry_with_params"
                if habit == "bad parameters":
                    data = drafts.bad_parameters(tool)
                elif habit == "placeholders":
                    data = drafts.placeholder()
                else:
                    data = drafts.parameters(tool, fresh=habit == "fresh parameters")
            case "unknown tool":
                kind, data = "retry_with_tool", {"tool_id": word(rng), "parameters": {}}
            case "failed tool":
                kind, data = "retry_with_tool", {"tool_id": tool.id}
            case "tool" | "fresh tool":
                given = drafts.parameters(other, fresh=habit == "fresh tool")
                kind, data = (
                    "retry_with_tool",
                    {"tool_id": other.id, **({"parameters": given} if rng.random() < 0.7 else {})},
                )
            case "repair":
                kind, data = "repair_step", {"hint": word(rng)}
            case "replan":
                kind, data = "replan", {"advice": word(rng)}
            case "stop":
                kind, data = rng.choice(["stop", "abort", "ask_user", word(rng)]), {}
            case "verify":
                kind, data = "verify_outcome", {"tool_id": other.id, "parameters": drafts.parameters(other)}
            case "read":
                readers = [spec for spec in self._specs if spec.effect == "reads"] or [other]
                reader = rng.choice(readers)
                kind, data = (
                    "verify_outcome",
                    {"tool_id": reader.id, "parameters": drafts.parameters(reader, fresh=True)},
                )
            case "settle yes" | "settle no":
                quote = self._seen.reading[1 : rng.choice([12, 60])] if rng.random() < 0.8 else word(rng)
                output = rng.choice([None, {"value": 1, "text": "x", "items": []}])
                evidence = {"evidence": quote, "output": output}
                kind, data = "settle_outcome", {"happened": habit == "settle yes", **evidence}
            case "contradiction":
                kind, data = (
                    rng.choice(["retry_with_params", "replan", "repair_step"]),
                    rng.choice([{}, None, 7, {"hint": 1}]),
                )
            case _:
                kind, data = "trigger_overall_reflection", {"summary": word(rng)}
        category = CATEGORIES.get(kind, "unknown")
        recoverable = True
        if habit == "contradiction" or rng.random() < 0.1:
            category = rng.choice(
                ["server_error", "external_error", "dependency_error", "unknown", word(rng)]
            )
            recoverable = rng.random() < 0.5
        return {
            "root_cause_category": category,
            "root_cause": word(rng),
            "is_recoverable": recoverable,
            "confidence": rng.choice([0.9, 90, -1, "high"]),
            "analysis": word(rng),
            "suggested_action": {"type": kind, "data": data},
        }

    def _overall(self, habit: str) -> JsonObject:
        rng, seen = self._rng, self._seen
        names = list(seen.steps) or ["s1"]
        failed = [name for name in seen.failed if name in seen.steps] or names
        strategy: JsonObject | None = {"type": rng.choice(STRATEGY_TYPES), "reason": word(rng)}
        assert strategy is not None
        if habit in STRATEGY_TYPES:
            strategy["type"] = habit
        strategy |= {
            "step_id": rng.choice(failed if rng.random() < 0.7 else names),
            "step_ids": rng.sample(names, rng.randint(1, min(2, len(names)))),
            "suggestions": [word(rng)],
            "adjustments": [{"step_id": rng.choice(names), "add": rng.sample(names, 1), "remove": rng.sample(names, 1)[: rng.randrange(2)]}],
        }  # fmt: skip
        should, done, nature = True, False, rng.choice(["tools", "parameters", "decomposition"])
        match habit:
            case "wrong ids":
                strategy |= {
                    "step_id": word(rng),
                    "step_ids": [word(rng), names[0]],
                    "adjustments": [{"step_id": word(rng)}],
                }
            case "no strategy":
                strategy = None
            case "give up":
                should, strategy = False, None
            case "done":
                should, done = False, True
            case "outside":
                nature = rng.choice(["external", "server"])
            case "contradiction":
                should, done = rng.random() < 0.5, rng.random() < 0.5
                nature = rng.choice(["external", "tools", word(rng)])
                strategy = rng.choice([strategy, None, {"type": word(rng)}])
        return {
            "problem_nature": nature,
            "should_replan": should,
            "done_in_substance": done,
            "reflection_text": word(rng),
            "root_causes": [word(rng)],
            "lessons_learned": [word(rng)],
            # beside another round it is a contradiction
            "ask": rng.choice(["", word(rng)])[: None if not should or habit == "contradiction" else 0],
            "replanning_strategy": strategy,
        }

    # ── judgements ──

    def _evaluation(self, habit: str) -> JsonObject:
        rng = self._rng
        score, success, output = 30.0, False, rng.choice(["done", None, {"a": 1}])
        if habit.startswith("creeps by "):
            self._score = min(79.0, self._score + float(habit.removeprefix("creeps by ")))
            score = self._score
        elif habit.startswith("random"):
            score, success = rng.uniform(0, 100), rng.random() < 0.3
        elif habit == "contradiction":
            score, success = rng.choice([(95.0, False), (10.0, True), (0.0, True), (100.0, False)])
        elif habit == "out of range":
            score = rng.choice([-5.0, 130.0, 1e300, float("nan"), 0.3])
        elif habit == "done":
            score, success, output = 95.0, True, "done"
        dimension = rng.choice([score, score, 100.0, 0.0, rng.uniform(0, 100)])
        news = "news" in habit or habit.startswith("creeps")
        return {
            "overall_score": score,
            "is_successful": success,
            "dimensions": dict.fromkeys(
                ("completeness", "correctness", "efficiency", "reliability"), dimension
            ),
            "failures": [word(rng) if news else "it is not enough"],
            "final_output": output,
        }
