"""An oracle in place of a model: it proposes the right recovery with some probability, and nonsense otherwise.

It plans and judges as told; only its answers about failures, and the plans and steps that mend them, are drawn.
It knows the task's right plan and reads the log, as a model would read its prompt.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from typing import Any

from bench.recovery import nonsense
from bench.recovery.nonsense import Written, reflection
from bench.recovery.task import (
    Again,
    Case,
    LookUp,
    MissingSteps,
    Order,
    OtherSteps,
    Parameters,
    Person,
    Substitute,
    Wanted,
)
from bench.recovery.world import LOOK_UP, World
from replan.core.evaluation.outcome import standing_of
from replan.core.recovery import strategies
from replan.core.state.fold import fold
from replan.core.state.task import State, StepState
from replan.core.types import JsonObject
from replan.ports import ModelReply, ModelRequest, Store
from replan.testing import ScriptedModel

MODEL_SECS = 2.0


class OracleModel:
    """The oracle as a model that takes its time."""

    name = "oracle"
    style = "standard"

    def __init__(
        self, case: Case, world: World, store: Store, right: float, seed: int, *, contrary: bool = False
    ) -> None:
        self._store = store
        self._oracle = Oracle(case, world, right, seed, contrary=contrary)
        self._script = ScriptedModel(self._oracle.answer, name=self.name)

    @property
    def calls(self) -> int:
        return sum(self._script.calls.values())

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        await asyncio.sleep(MODEL_SECS)
        self._oracle.state = fold(await self._store.read("task"))
        return await self._script.ask(request, on_text)

    async def aclose(self) -> None:
        return None


class Oracle:
    """Answers by schema name. `contrary`: of a call in doubt it says the contrary of what it has read, and quotes it."""

    def __init__(self, case: Case, world: World, right: float, seed: int, *, contrary: bool = False) -> None:
        self._case = case
        self._contrary = contrary
        self._world = world
        self._right = right
        self._draw = random.Random(f"{seed} {case.name} {right}")
        self._meaning = {one.step_id: one.step_id for one in case.good}
        """Step of any plan → step of the right one."""
        self.state = State()

    def answer(self, request: ModelRequest) -> Written:
        knows = self._draw.random() < self._right
        match request.schema_name:
            case "execution_plan":
                return self._plan(request, knows)
            case "evaluation":
                return self._verdict()
            case "step_reflection":
                return self._of_step(request, knows)
            case "step_repair":
                return self._repair(request, knows)
            case "overall_reflection":
                return self._of_round() if knows else nonsense.of_round(self._draw, list(self.state.steps))
            case other:
                raise ValueError(f"the oracle is not made for {other}")

    # ── plans ──

    def _plan(self, request: ModelRequest, knows: bool) -> Written:
        if self.state.replanning is not None:
            steps = self._rest()
        elif len(request.turns) == 1:
            return {"steps": list(self._case.planned)}
        else:
            steps = [one.step() for one in self._case.good]
        return {"steps": steps} if knows else nonsense.of_plan(self._draw, steps)

    def _rest(self) -> list[JsonObject]:
        """The steps that are left to be planned, under new ids."""
        state, started = self.state, self.state.replanning
        assert started is not None
        assert state.plan is not None
        plan, standing = state.plan, standing_of(state)
        match started.strategy.type:
            case "full_replan":
                kept: tuple[str, ...] = ()
            case "add_remediation_steps":
                kept = tuple(step.step_id for step in plan.steps)
            case _:
                kept = strategies.kept_before(plan, standing, started.strategy.step_id)
        every = {**state.earlier, **state.steps}
        have = {
            self._meaning[name]: name
            for name, step in every.items()
            if name in self._meaning and (name in kept or step.status == "succeeded")
        }
        new = [one for one in self._case.good if one.step_id not in have]
        if started.strategy.type == "add_remediation_steps" and not new:
            failed = [name for name in standing.failed if name in self._meaning]
            return [self._wanted(name).step({**have, self._meaning[name]: name}) for name in failed]
        numbers = [int(found[1]) for name in state.ids_used() if (found := re.fullmatch(r"step_(\d+)", name))]
        first = max(numbers, default=0) + 1
        names = {one.step_id: f"step_{first + at}" for at, one in enumerate(new)}
        self._meaning.update({made: meant for meant, made in names.items()})
        known = [*kept, *names.values()]
        return [one.step({**have, **names}, known) for one in new]

    def _wanted(self, step_id: str) -> Wanted:
        return self._case.by_id[self._meaning[step_id]]

    # ── a step ──

    def _of_step(self, request: ModelRequest, knows: bool) -> Written:
        allowed = request.json_schema["properties"]["suggested_action"]["properties"]["type"]["enum"]
        step = self._asked_about(request)
        in_doubt = "verify_outcome" in allowed or "settle_outcome" in allowed
        if not knows:
            if in_doubt:
                return nonsense.of_doubt(self._draw, self._read(step))
            return nonsense.of_step(self._draw, self._called(step)[1])
        if in_doubt:
            return self._look_up(step, allowed)
        kind = next(kind for kind in self._remedies(step) if kind in allowed)
        return self._proposal(kind, step)

    def _remedies(self, step: StepState) -> list[str]:
        """What helps, the best first; the last of them is always open."""
        last = ["repair_step", "replan", "trigger_overall_reflection"]
        match self._case.remedy:
            case Parameters():
                _, called = self._called(step)
                wanted = self._wanted(step.step.step_id)
                superfluous = set(called) - set(wanted.resolved)
                return last if superfluous else ["retry_with_params", *last]
            case Substitute():
                return ["retry_with_tool", *last]
            case Again() | LookUp() | OtherSteps():
                return last[1:]
            case MissingSteps() | Order() | Person():
                return last[2:]

    def _proposal(self, kind: str, step: StepState) -> JsonObject:
        match kind:
            case "retry_with_params":
                wanted = self._wanted(step.step.step_id)
                _, called = self._called(step)
                changed = {
                    name: value
                    for name, value in wanted.resolved.items()
                    if name not in called or called[name] != value
                }
                return reflection(self._case.cause, kind, changed or dict(wanted.resolved))
            case "retry_with_tool":
                wanted = self._wanted(step.step.step_id)
                data = {"tool_id": wanted.tool, "parameters": wanted.resolved}
                return reflection(self._case.cause, kind, data)
            case "repair_step":
                cause = self._case.cause
                fitting = "tool_error" if cause in ("external_error", "server_error") else cause
                return reflection(fitting, kind, {"hint": "as the right plan has it"})
            case "replan":
                return reflection(self._case.cause, kind, {"advice": "as the right plan has it"})
            case _:
                summary = self._case.ask or "the plan as a whole has to be changed"
                return reflection(self._case.cause, kind, {"summary": summary})

    def _look_up(self, step: StepState, allowed: list[str]) -> JsonObject:
        wanted = self._wanted(step.step.step_id)
        if "settle_outcome" in allowed:
            told: JsonObject = {"happened": False, "evidence": self._read(step)}
            happened = self._world.effects[self._world.content(wanted.tool, wanted.resolved)] > 0
            if happened is not self._contrary:
                told |= {"happened": True, "output": wanted.output}
            return reflection("unknown", "settle_outcome", told)
        if "verify_outcome" in allowed:
            reading = {"tool_id": LOOK_UP, "parameters": {"tool": wanted.tool}}
            return reflection("unknown", "verify_outcome", reading)
        return reflection("unknown", "trigger_overall_reflection", {"summary": "it cannot be told"})

    def _read(self, step: StepState) -> str:
        """What the latest reading about the step's call gave."""
        known = step.healing.readings.values() if step.healing is not None else ()
        return next((one[-1].output for one in known if one), "")

    def _repair(self, request: ModelRequest, knows: bool) -> Written:
        step = self._asked_about(request)
        name = step.step.step_id
        if not knows:
            return nonsense.of_repair(self._draw, step.step.model_dump(mode="json", exclude_defaults=True))
        names = {
            self._meaning[other]: other
            for other, known in {**self.state.earlier, **self.state.steps}.items()
            if other in self._meaning and (other == name or known.status == "succeeded")
        }
        return self._wanted(name).step(names, list(self.state.steps))

    def _asked_about(self, request: ModelRequest) -> StepState:
        """The step whose failure a prompt is about."""
        text = request.turns[0].text
        for name, step in self.state.steps.items():
            if re.search(rf"^{re.escape(name)}[ :].*\n(?:called with|planned as): ", text, re.MULTILINE):
                return step
        raise ValueError("the prompt names no failed step")

    def _called(self, step: StepState) -> tuple[str, JsonObject]:
        """What the step's failed call was made with."""
        known = step.healing.failures() if step.healing is not None else []
        call = next(iter(step.calls.values()), None)
        if call is not None:
            return call.tool_id, call.parameters
        if known:
            return known[-1].tool_id, known[-1].parameters
        return step.step.tool, step.step.parameters

    # ── a round ──

    def _of_round(self) -> JsonObject:
        state, case = self.state, self._case
        failed = [name for name, step in state.steps.items() if step.status == "failed"]
        anew: JsonObject = (
            {"type": "replan_from_step", "step_id": failed[0]} if failed else {"type": "full_replan"}
        )
        match case.remedy:
            case Person():
                return _round("external", None, case.ask)
            case MissingSteps() if failed:
                return _round(
                    "decomposition", {"type": "add_remediation_steps", "suggestions": ["what is missing"]}
                )
            case Order(first, after) if failed and {first, after} <= set(state.steps):
                adjustments = [
                    {"step_id": after, "add": [first], "remove": []},
                    {"step_id": first, "add": [], "remove": [after]},
                ]
                return _round("decomposition", {"type": "adjust_dependencies", "adjustments": adjustments})
            case Parameters():
                return _round("parameters", anew)
            case _:
                return _round("tools", anew)

    def _verdict(self) -> JsonObject:
        done = self._world.complete and self._case.ending == "finished"
        score = 95 if done else 20
        names = ("completeness", "correctness", "efficiency", "reliability")
        answer: JsonObject = {
            "overall_score": score,
            "is_successful": done,
            "dimensions": dict.fromkeys(names, score),
            "failures": [] if done else ["what was asked for has not been done"],
            "left_out_effects": [
                {"step": one.step.step_id, "not_needed": "all that was asked for is done"}
                for one in self.state.every_step()
                if done
            ],
            "final_output": "done" if done else self._case.ask or "not done",
        }
        return answer


def _round(nature: str, strategy: Any, ask: str = "") -> JsonObject:
    return {
        "problem_nature": nature,
        "should_replan": strategy is not None,
        "reflection_text": "as the errors say",
        "root_causes": ["as the errors say"],
        "replanning_strategy": strategy,
        "ask": ask,
    }
