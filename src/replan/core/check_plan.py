"""The checks that a plan passes before anything runs (specification §4.4).

`check_plan` gives the plan as it will run (tool names folded to ids, implied dependencies united with the
declared ones) and every violation, in words that say what would be right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from replan.core.check_parameters import parameter_violations
from replan.core.check_references import known_steps, reference_violations
from replan.core.draft import Draft, PlannedCall, metadata_name, missing, references_of
from replan.core.graph import Graph
from replan.core.ids import call_content, step_id_problem
from replan.core.policy import PlanLimits
from replan.core.refs import Reference, meaning, rewritten
from replan.core.repeats import Deed, meant_by_order
from replan.core.types import Action, JsonObject, Plan, Step, StepId, ToolSpec
from replan.core.when import read_condition, roots


class Toolbox(NamedTuple):
    """The tools a plan may use, and how names are understood."""

    resolve: Callable[[str], ToolSpec | None]
    nearest: Callable[[str], Sequence[str]]


class Checked(NamedTuple):
    plan: Plan
    violations: tuple[str, ...]


def check_plan(
    plan: Plan,
    tools: Toolbox,
    *,
    metadata: Mapping[str, Any],
    limits: PlanLimits,
    earlier: Mapping[str, JsonObject | None] | None = None,
    used: Collection[str] = (),
    settled: Collection[str] = (),
    ran: Mapping[tuple[StepId, str | None], ToolSpec | None] | None = None,
    check_schemas: bool = True,
) -> Checked:
    """The plan as it will run, and everything that is wrong with it.

    `earlier`: finished steps of earlier rounds that may be referred to, with their output schemas.
    `used`: ids that new steps may not take. `settled`: steps that are done or stay as they were checked: what they
    call is not checked again. `ran`: what has run in place of what they plan, by step and action. `check_schemas=False` leaves the tools' parameters out.
    """
    if len(plan.steps) > limits.max_steps:
        return Checked(
            plan, (f"the plan has {len(plan.steps)} steps; at most {limits.max_steps} are allowed",)
        )
    check = _Check(tools, Draft(metadata, earlier or {}, ran or {}), limits, used, settled)
    steps = check.run(plan.steps, check_schemas=check_schemas)
    return Checked(plan.model_copy(update={"steps": tuple(steps)}), tuple(dict.fromkeys(check.violations)))


class _Check:
    def __init__(
        self,
        tools: Toolbox,
        draft: Draft,
        limits: PlanLimits,
        used: Collection[str],
        settled: Collection[str] = (),
    ) -> None:
        self.settled = settled
        self.tools = tools
        self.draft = draft
        self.limits = limits
        self.used = used
        self.violations: list[str] = []

    def say(self, text: str) -> None:
        self.violations.append(text)

    def run(self, given: Sequence[Step], *, check_schemas: bool) -> list[Step]:
        read = [self._with_tools(step) for step in given]
        for step, calls in read:
            self._register(step, calls)
        calls_of = [calls for _, calls in read]
        references = [references_of(step) for step, _ in read]
        steps = [
            self._with_dependencies(step, calls, found)
            for (step, calls), found in zip(read, references, strict=True)
        ]
        for step in reversed(steps):  # the first of an id has it
            self.draft.steps[step.step_id] = step
        self._check_shape(steps)
        for step, found in zip(steps, references, strict=True):
            if step.step_id not in self.settled:
                self.violations.extend(reference_violations(self.draft, step, found))
        if check_schemas:
            for step, calls in zip(steps, calls_of, strict=True):
                for call in calls if step.step_id not in self.settled else ():
                    self.violations.extend(parameter_violations(self.draft, step, call))
        self._check_repeats(steps, calls_of)
        return steps

    # ── tools ──

    def _with_tools(self, step: Step) -> tuple[Step, list[PlannedCall]]:
        where = f"step {step.step_id!r}"
        if step.allow_failed_items and not step.for_each:
            self.say(f"{where}: `allow_failed_items` goes with `for_each` only; leave it out")
        if not step.actions:
            tool = self._tool(step.tool, where)
            if tool is not None and tool.id != step.tool:
                step = step.model_copy(update={"tool": tool.id})
            return step, [PlannedCall(where, tool, step.parameters, step.repeat)]
        if step.parameters or (step.tool and step.tool not in {action.tool for action in step.actions}):
            self.say(
                f"{where} has both a call of its own ({step.tool or 'parameters'}) and actions; give one of the two"
            )
        if len(step.actions) > self.limits.max_fan_out:
            self.say(
                f"{where} has {len(step.actions)} actions; at most {self.limits.max_fan_out} are allowed"
            )
        actions: list[Action] = []
        calls: list[PlannedCall] = []
        for action in step.actions:
            at = f"{where}, action {action.action_id!r}"
            tool = self._tool(action.tool, at)
            actions.append(action.model_copy(update={"tool": tool.id}) if tool else action)
            calls.append(PlannedCall(at, tool, action.parameters, action.repeat or step.repeat))
        return step.model_copy(update={"actions": tuple(actions), "tool": "", "parameters": {}}), calls

    def _tool(self, name: str, where: str) -> ToolSpec | None:
        tool = self.tools.resolve(name) if name else None
        if tool is None:
            near = ", ".join(self.tools.nearest(name))
            hint = f"; there are: {near}" if near else "; there are no tools"
            self.say(
                f"{where}: the tool {name!r} does not exist{hint}" if name else f"{where} names no tool{hint}"
            )
        return tool

    # ── ids ──

    def _register(self, step: Step, calls: list[PlannedCall]) -> None:
        draft, new = self.draft, step.step_id
        if problem := step_id_problem(new):
            self.say(f"step id {problem}")
        self._check_unused("step", new)
        draft.steps.setdefault(new, step)
        draft.calls.setdefault(new, calls)
        draft.position.setdefault(new, len(draft.position))
        for place, action in enumerate(step.actions):
            if problem := step_id_problem(action.action_id):
                self.say(f"step {new!r}: action id {problem}")
            self._check_unused("action", action.action_id)
            draft.actions.setdefault(action.action_id, (new, place))
        for call in calls:
            for name in call.tool.output_params if call.tool else ():
                draft.writers.setdefault(name, []).append(new)

    def _check_unused(self, kind: str, new: str) -> None:
        if new in self.draft.steps or new in self.draft.actions:
            self.say(f"the {kind} id {new!r} is used twice; every step and action needs its own")
        elif new in self.used:
            self.say(f"the {kind} id {new!r} was used earlier in this task; take a new one")

    # ── dependencies ──

    def _with_dependencies(self, step: Step, calls: list[PlannedCall], references: list[Reference]) -> Step:
        if step.when is not None and (condition := read_condition(step.when)) != step.when:
            step = step.model_copy(update={"when": condition})
        needs = dict.fromkeys([*self._declared(step), *self._implied(step, calls, references)])
        needs.pop(step.step_id, None)
        wanted = tuple(needs)
        return step if wanted == step.dependencies else step.model_copy(update={"dependencies": wanted})

    def _declared(self, step: Step) -> list[str]:
        out = []
        steps, actions = self.draft.steps, self.draft.actions
        for name in step.dependencies:
            owner = self.draft.owner(name) if actions else name
            if owner == step.step_id:
                self.say(f"step {step.step_id!r} depends on itself")
            elif owner in steps:
                out.append(owner)
            elif owner not in self.draft.earlier:
                self.say(
                    f"step {step.step_id!r} depends on {name!r}, which is not a step of this plan{known_steps(self.draft)}"
                )
        return out

    def _implied(self, step: Step, calls: list[PlannedCall], references: list[Reference]) -> list[str]:
        """What the step's references, its condition and the metadata that it needs imply."""
        draft = self.draft
        out: list[str] = []
        names: list[str | None] = []
        for ref in references:
            if ref.head == "metadata":
                names.append(metadata_name(ref))
            elif (owner := draft.owner(ref.head)) in draft.steps:
                out.append(owner)
        for root, part in roots(step.when) if step.when is not None else ():
            if root == "metadata":
                names.append(part)
            elif root in draft.steps:
                out.append(root)
        names.extend(name for call in calls for name in missing(call))
        if draft.writers:
            for name in dict.fromkeys(names):
                out.extend(draft.writers_before(step.step_id, name))
        return out

    def _needs(self, steps: Sequence[Step]) -> dict[StepId, tuple[StepId, ...]]:
        needs: dict[StepId, tuple[StepId, ...]] = {}
        for step in steps:
            needs.setdefault(
                step.step_id, tuple(name for name in step.dependencies if name in self.draft.steps)
            )
        return needs

    def _check_shape(self, steps: Sequence[Step]) -> None:
        needs = self._needs(steps)
        graph = Graph.from_needs(needs)
        layers = graph.layers()
        if sum(map(len, layers)) < len(needs):
            self.say(f"the steps form a cycle: {' → '.join(graph.cycle())}; remove one dependency")
        elif (depth := len(layers)) > self.limits.max_depth:
            self.say(f"the plan is {depth} steps deep; at most {self.limits.max_depth} are allowed")

    # ── effects ──

    def _check_repeats(self, steps: Sequence[Step], calls_of: Sequence[Sequence[PlannedCall]]) -> None:
        """Like calls of an effect in one plan: each says that it is meant, or the plan's order does."""
        alike: dict[str, list[tuple[StepId, PlannedCall, Deed]]] = {}
        deeds: dict[StepId, list[Deed]] = {}
        for step, calls in zip(steps, calls_of, strict=True):
            for call in calls:
                if call.tool is None or call.tool.effect == "reads":
                    continue
                written = rewritten({**call.parameters, **self.draft.filled(call)}, meaning)
                deed = Deed(call.tool, call_content(call.tool.id, written, call.tool.parameters))
                deeds.setdefault(step.step_id, []).append(deed)
                if call.tool.effect == "once" and step.step_id not in self.settled:
                    items = rewritten(step.for_each or "", meaning)
                    alike.setdefault(f"{deed.content}\x00{items}", []).append((step.step_id, call, deed))
        graph: Graph | None = None
        for found in alike.values():
            if len(found) < 2 or all(call.repeat for _, call, _ in found):
                continue
            graph = graph or Graph.from_needs(self._needs(steps))
            if _each_meant(found, graph, deeds):
                continue
            places = " and ".join(call.where for _, call, _ in found[:5])
            self.say(
                f"{places} make the same call of {found[0][2].tool.id!r}, which has an effect; leave one out, or set "
                "`repeat: true` on each if the effect is wanted that often"
            )


def _each_meant(
    found: Sequence[tuple[StepId, PlannedCall, Deed]], graph: Graph, deeds: Mapping[StepId, Sequence[Deed]]
) -> bool:
    """True if the plan's order says of each two neighbours that both are meant."""
    order = {step_id: at for at, step_id in enumerate(graph.topological())}
    names = sorted((name for name, _, _ in found), key=lambda name: order.get(name, -1))
    return all(
        meant_by_order(first, second, found[0][2], graph, deeds)
        for first, second in itertools.pairwise(names)
    )
