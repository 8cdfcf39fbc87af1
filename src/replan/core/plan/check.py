"""The checks that a plan passes before anything runs (specification §4.4).

`check_plan` gives the plan as it will run (tool names folded to ids, implied dependencies united with the
declared ones) and every violation, in words that say what would be right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from replan.core.data.canonical import has_forms
from replan.core.data.validation import faults, quick_check
from replan.core.following.referred import NOTHING, Followed
from replan.core.ids import step_id_problem
from replan.core.limits.policy import PlanLimits
from replan.core.own_tools.called import called_as
from replan.core.own_tools.model import planned_violations
from replan.core.plan.check_parameters import item_violations, masks_written, parameter_violations
from replan.core.plan.check_references import known_steps, names_meant, reference_violations
from replan.core.plan.constant import ConstantCall, constant_call
from replan.core.plan.fields import order_violations
from replan.core.plan.graph import Graph
from replan.core.plan.index import Draft, PlannedCall, metadata_name, references_of
from replan.core.plan.outer_names import with_outer_names
from replan.core.plan.receivers import SecretMetadata
from replan.core.plan.repeats import Deed, Room, meant_by_order
from replan.core.references.conditions import read_condition, roots
from replan.core.references.refs import Reference, listed, meaning, rewritten
from replan.core.secrets import takes_secrets
from replan.core.types import Action, Category, JsonObject, Plan, Step, StepId, ToolId, ToolSpec
from replan.core.waits.check import wait_violations
from replan.core.waits.condition import with_condition_as_meant


class Toolbox(NamedTuple):
    """The tools a plan may use, and how names are understood."""

    resolve: Callable[[str], ToolSpec | None]
    nearest: Callable[[str], Sequence[str]]
    lacks: Callable[[ToolId], str] = lambda _: ""
    """What a tool that is known needs and has not got here; empty if nothing."""


class _Open(NamedTuple):
    """How parameters of a tool without secrets are checked."""

    fits: Callable[[Any], bool] | None
    """`quick_check` of its schema."""
    as_written: bool
    """What is written has no other form."""

    @classmethod
    def of(cls, tool: ToolSpec) -> _Open | None:
        """None for a tool that takes secrets."""
        if takes_secrets(tool):
            return None
        return cls(quick_check(tool.parameters), not has_forms(tool.parameters))


class Wrong(NamedTuple):
    """Something that is wrong with one step."""

    category: Category
    text: str


class Checked(NamedTuple):
    plan: Plan
    violations: tuple[str, ...]
    graph: Graph | None = None
    """Of the plan as it will run."""
    constants: Mapping[StepId, ConstantCall] = {}
    """The steps whose only call is known by now as it will be made."""
    tried_before: bool = False
    """All that is wrong with it is that this task has run it before."""
    of_steps: Mapping[StepId, Sequence[Wrong]] = {}
    """What of it is wrong with single steps."""


def check_plan(
    plan: Plan,
    tools: Toolbox,
    *,
    metadata: Mapping[str, Any],
    limits: PlanLimits,
    earlier: Mapping[str, JsonObject | None] | None = None,
    used: Collection[str] = (),
    settled: Collection[str] = (),
    before: Collection[str] = (),
    moot: Collection[str] = (),
    ran: Mapping[tuple[StepId, str | None], ToolSpec | None] | None = None,
    secret: SecretMetadata | None = None,
    followed: Followed = NOTHING,
) -> Checked:
    """The plan as it will run, and everything that is wrong with it.

    `earlier`: finished steps of earlier rounds that may be referred to, with their output schemas.
    `used`: ids that new steps may not take. `settled`: steps that are done or stay as they were checked: what they
    call is not checked again. `before`: steps of the parts that the rest goes on from (`more`): it is one plan with
    them. `moot`: steps that were not to run, so that they make no call. `ran`: what has run in place of what they plan, by step and action.
    `secret`: the metadata that hold secrets. `followed`: what there is of the tasks that this one follows.
    """
    if len(plan.steps) > limits.max_steps:
        return Checked(
            plan, (f"the plan has {len(plan.steps)} steps; at most {limits.max_steps} are allowed",)
        )
    draft = Draft(metadata, earlier or {}, secret, ran or {}, followed=followed)
    check = _Check(tools, draft, limits, used, settled, before, moot)
    steps = check.run(plan.steps)
    made = plan.model_copy(update={"steps": tuple(steps)})
    return Checked(made, check.told(), check.graph(steps), check.constants, of_steps=check.of_steps)


MOST_TOLD = 100
"""Faults of one plan that are told; from there on no more are looked for than come by themselves."""


_Called = TypeVar("_Called", Step, Action)


def _with_condition(one: _Called) -> _Called:
    parameters = with_condition_as_meant(one.parameters)
    return one if parameters is one.parameters else one.model_copy(update={"parameters": parameters})


class _Check:
    def __init__(
        self,
        tools: Toolbox,
        draft: Draft,
        limits: PlanLimits,
        used: Collection[str],
        settled: Collection[str] = (),
        before: Collection[str] = (),
        moot: Collection[str] = (),
    ) -> None:
        self.settled = settled
        self.before = before
        self.moot = moot
        self.tools = tools
        self.draft = draft
        self.limits = limits
        self.used = used
        self.violations: list[str] = []
        self.of_steps: dict[StepId, list[Wrong]] = {}
        self.constants: dict[StepId, ConstantCall] = {}
        self._graph: Graph | None = None
        self._found: dict[str, ToolSpec] = {}
        """Tools by the names that they are planned with."""
        self._open: dict[ToolId, _Open | None] = {}
        """Of each tool that surely takes no secrets, how parameters are held against its schema."""

    def say(self, text: str) -> None:
        self.violations.append(text)

    def say_of(self, step_id: StepId, category: Category, texts: Iterable[str]) -> None:
        """The same of one step."""
        for text in texts:
            self.violations.append(text)
            self.of_steps.setdefault(step_id, []).append(Wrong(category, text))

    def told(self) -> tuple[str, ...]:
        """What is wrong: the first of very many, which nobody would read and whose making takes its time."""
        found = tuple(dict.fromkeys(self.violations))
        if len(found) < MOST_TOLD:
            return found
        return (
            *found[:MOST_TOLD],
            "and more of it: these are the first; mend them and everything that is like them",
        )

    def run(self, given: Sequence[Step]) -> list[Step]:
        read = [self._with_tools(step) for step in given]
        for step, calls in read:
            self._register(step, calls)
        read = [self._with_outer_names(step, calls) for step, calls in read]
        calls_of = [calls for _, calls in read]
        references = [
            references_of(step)
            if step.for_each is not None or calls[0].refers or (len(calls) > 1 and any(map(_refers, calls)))
            else []
            for step, calls in read
        ]
        steps = [
            self._with_dependencies(step, calls, found)
            for (step, calls), found in zip(read, references, strict=True)
        ]
        for step in reversed(steps):  # the first of an id has it
            self.draft.steps[step.step_id] = step
        self._check_shape(steps)
        for step, found in zip(steps, references, strict=True):
            says = (
                found
                or step.for_each is not None
                or step.when is not None
                or any(action.dependencies for action in step.actions)
            )
            if len(self.violations) >= MOST_TOLD:
                break
            if len(found) > self.limits.max_references:
                self.say(
                    f"step {step.step_id!r} has {len(found)} references; at most {self.limits.max_references} are allowed"
                )
            elif says and step.step_id not in self.settled:
                self.say_of(step.step_id, "dependency_error", reference_violations(self.draft, step, found))
        for step, calls in zip(steps, calls_of, strict=True):
            if len(self.violations) >= MOST_TOLD:
                break
            for call in calls if step.step_id not in self.settled else ():
                self._check_parameters(step, call)
        self._check_repeats(steps, calls_of)
        if [step for step in steps if step.order is not None]:
            self.violations.extend(order_violations(steps, calls_of, self.graph(steps)))
            steps = [
                step if step.order is None else step.model_copy(update={"order": None}) for step in steps
            ]
        return steps

    # ── tools ──

    def _with_tools(self, step: Step) -> tuple[Step, list[PlannedCall]]:
        where = f"step {step.step_id!r}"
        if step.allow_failed_items and not step.for_each:
            self.say(f"{where}: `allow_failed_items` goes with `for_each` only; leave it out")
        most = self.limits.max_fan_out
        if step.for_each is not None and len(items := listed(step.for_each) or ()) > most:
            self.say(f"{where}: `for_each` has {len(items)} items; at most {most} are allowed")
        if not step.actions:
            tool = self._found.get(step.tool) or self._tool(step.tool, where, step.step_id)
            if tool is not None and tool.id != step.tool:
                step = step.model_copy(update={"tool": tool.id})
            if tool is not None and tool.shaped_by_call:
                tool = called_as(tool, step.parameters)
            elif tool is not None and tool.waits:
                step = _with_condition(step)
            return step, [PlannedCall.of(where, tool, step.parameters, step.repeat, unread=step.unread)]
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
            tool = self._tool(action.tool, at, step.step_id)
            action = action.model_copy(update={"tool": tool.id}) if tool else action
            again = action.repeat or step.repeat
            if tool is not None and tool.shaped_by_call:
                tool = called_as(tool, action.parameters)
            elif tool is not None and tool.waits:
                action = _with_condition(action)
            actions.append(action)
            calls.append(PlannedCall.of(at, tool, action.parameters, again, unread=action.unread))
        return step.model_copy(update={"actions": tuple(actions), "tool": "", "parameters": {}}), calls

    def _tool(self, name: str, where: str, step_id: StepId) -> ToolSpec | None:
        tool = self._found.get(name)
        if tool is not None:
            return tool
        if name:
            tool = self.tools.resolve(name)
            if tool is not None:
                self._found[name] = tool
                if tool.asks_model and (lack := self.tools.lacks(tool.id)):
                    self.say_of(step_id, "tool_error", [f"{where}: the tool {name!r} {lack}"])
        if tool is None:
            if len(self.violations) < MOST_TOLD:
                near = ", ".join(self.tools.nearest(name))
                hint = f"; there are: {near}" if near else "; there are no tools"
            else:
                hint = ""
            text = (
                f"{where}: the tool {name!r} does not exist{hint}" if name else f"{where} names no tool{hint}"
            )
            self.say_of(step_id, "tool_error", [text])
        return tool

    # ── ids ──

    def _register(self, step: Step, calls: list[PlannedCall]) -> None:
        draft, new = self.draft, step.step_id
        if problem := step_id_problem(new):
            self.say(f"step id {problem}")
        if new in draft.steps or new in draft.actions or new in self.used:
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

    def _with_outer_names(self, step: Step, calls: list[PlannedCall]) -> tuple[Step, list[PlannedCall]]:
        if step.when is not None and (condition := read_condition(step.when)) != step.when:
            step = step.model_copy(update={"when": condition})
        if step.step_id in self.settled or not (
            step.when is not None or step.for_each is not None or any(map(_refers, calls))
        ):
            return step, calls
        made = with_outer_names(self.draft, step, calls, self.tools.resolve)
        if made is step:
            return step, calls
        given = [one.parameters for one in made.actions or (made,)]
        return made, [call._replace(parameters=one) for call, one in zip(calls, given, strict=True)]

    # ── dependencies ──

    def _with_dependencies(self, step: Step, calls: list[PlannedCall], references: list[Reference]) -> Step:
        declared = self._declared(step)
        if not (references or self.draft.writers) and step.when is None:  # then nothing is implied
            if declared is step.dependencies:
                return step
            needs = dict.fromkeys(declared)
        else:
            needs = dict.fromkeys([*declared, *self._implied(step, calls, references)])
        needs.pop(step.step_id, None)
        wanted = tuple(needs)
        return step if wanted == step.dependencies else step.model_copy(update={"dependencies": wanted})

    def _declared(self, step: Step) -> Sequence[str]:
        """The steps that it says it needs; its very `dependencies` where there is nothing to change about them."""
        out: list[str] = []
        steps, actions = self.draft.steps, self.draft.actions
        if not actions:
            wanted = set(step.dependencies)
            if (
                wanted <= steps.keys()
                and step.step_id not in wanted
                and len(wanted) == len(step.dependencies)
            ):
                return step.dependencies
        for name in step.dependencies:
            owner = self.draft.owner(name) if actions else name
            if owner == step.step_id:
                self.say(f"step {step.step_id!r} depends on itself")
            elif owner in steps:
                out.append(owner)
            elif owner not in self.draft.earlier and owner not in self.draft.followed.schemas:
                hint = known_steps(self.draft) if len(self.violations) < MOST_TOLD else ""
                self.say(f"step {step.step_id!r} depends on {name!r}, which is not a step of this plan{hint}")
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
        names.extend(name for call in calls for name in call.missing)
        if draft.writers:
            wanted = draft.sees[step.step_id] = dict.fromkeys(names)
            for name in wanted:
                out.extend(draft.writers_before(step.step_id, name))
        return out

    def graph(self, steps: Sequence[Step]) -> Graph:
        """The graph of the steps with their dependencies united."""
        if self._graph is None:
            needs: dict[StepId, tuple[StepId, ...]] = {}
            for step in steps:  # by now a dependency is a step of the plan
                needs.setdefault(step.step_id, step.dependencies)
            self._graph = Graph.from_needs(needs)
        return self._graph

    def _check_shape(self, steps: Sequence[Step]) -> None:
        graph = self.graph(steps)
        layers = graph.layers()
        if sum(map(len, layers)) < len(graph.needs):
            self.say(f"the steps form a cycle: {' → '.join(graph.cycle())}; remove one dependency")
        elif (depth := len(layers)) > self.limits.max_depth:
            self.say(f"the plan is {depth} steps deep; at most {self.limits.max_depth} are allowed")

    # ── parameters ──

    def _check_parameters(self, step: Step, call: PlannedCall) -> None:
        tool = call.tool
        if call.unread:
            return
        if tool is not None and tool.waits:
            self.say_of(
                step.step_id,
                "parameter_error",
                wait_violations(
                    self.tools.resolve,
                    self.tools.nearest,
                    call.where,
                    tool,
                    call.parameters,
                    names_meant(self.draft, step),
                ),
            )
        if tool is not None and tool.asks_model:
            self.say_of(step.step_id, "parameter_error", planned_violations(call.where, call.parameters))
        opened: _Open | None = None
        if tool is not None and not (call.refers or call.missing or masks_written(self.draft, call)):
            if tool.id not in self._open:
                self._open[tool.id] = _Open.of(tool)
            opened = self._open[tool.id]
        if tool is None or opened is None or not _fits(opened, tool, call.parameters):
            self.say_of(step.step_id, "parameter_error", parameter_violations(self.draft, step, call))
            if call.refers and step.for_each is not None:
                self.say_of(step.step_id, "parameter_error", item_violations(self.draft, step, call))
        elif tool.waits or tool.asks_model:
            pass  # it is not made as other calls are
        elif not step.actions and step.for_each is None and step.step_id not in self.constants:
            self.constants[step.step_id] = constant_call(tool, call.parameters, as_written=opened.as_written)

    # ── effects ──

    def _check_repeats(self, steps: Sequence[Step], calls_of: Sequence[Sequence[PlannedCall]]) -> None:
        """Like calls of an effect in one plan: each says that it is meant, or the plan's order does."""
        alike: dict[str, list[tuple[StepId, PlannedCall, Deed]]] = {}
        again: dict[str, None] = {}
        for step, calls in zip(steps, calls_of, strict=True):
            for call in calls:
                if call.tool is None or call.tool.effect != "once" or step.step_id in self.moot:
                    continue
                if step.step_id not in self.settled or step.step_id in self.before:
                    deed = self._deed(step, call, call.tool)
                    items = rewritten(step.for_each, meaning) if step.for_each else ""
                    what, made = f"{deed.content}\x00{items}", (step.step_id, call, deed)
                    if what in alike:
                        alike[what].append(made)
                        again[what] = None
                    else:
                        alike[what] = [made]
        room = Room()
        deeds: dict[StepId, list[Deed]] | None = None
        for found in [found for what, found in alike.items() if what in again]:
            new = [call for name, call, _ in found if name not in self.settled]
            if all(call.repeat for call in new):
                continue
            tool = found[0][2].tool.id
            done = [call.where for name, call, _ in found if name in self.settled]
            if done:  # the order of the steps says nothing here: a next part may state again what is done
                text = (
                    f"{_places(new)} {'makes' if len(new) == 1 else 'make'} the call of {tool!r} that {done[0]} has made, which has "
                    "an effect; leave it out, or set `repeat: true` on it if the effect is wanted once more"
                )
                if any(step.instead_of for step in steps if step.step_id in {name for name, _, _ in found}):
                    text += (
                        ", or write that step again as it is, with `instead_of`, to say what it stands for"
                    )
                self.say(text)
                for name in [name for name, _, _ in found if name not in self.settled]:
                    self.of_steps.setdefault(name, []).append(Wrong("decomposition_error", text))
                continue
            if deeds is None:
                deeds = self._deeds(steps, calls_of)
            if _each_meant(found, self.graph(steps), deeds, room):
                continue
            text = (
                f"{_places(new)} make the same call of {tool!r}, which has an effect; leave one out, or set "
                "`repeat: true` on each if the effect is wanted that often"
            )
            self.say(text)
            for name in list(dict.fromkeys(name for name, _, _ in found if name not in self.settled))[1:]:
                self.of_steps.setdefault(name, []).append(Wrong("decomposition_error", text))

    def _deeds(
        self, steps: Sequence[Step], calls_of: Sequence[Sequence[PlannedCall]]
    ) -> dict[StepId, list[Deed]]:
        """What each step sets, or has the effect of."""
        found: dict[StepId, list[Deed]] = {}
        for step, calls in zip(steps, calls_of, strict=True):
            for call in calls if step.step_id not in self.moot else ():
                if call.tool is not None and call.tool.effect != "reads":
                    found.setdefault(step.step_id, []).append(self._deed(step, call, call.tool))
        return found

    def _deed(self, step: Step, call: PlannedCall, tool: ToolSpec) -> Deed:
        constant = self.constants.get(step.step_id)
        if constant is not None and constant.parameters is call.parameters and not tool.unique_by:
            return tuple.__new__(Deed, (tool, constant.content))
        return Deed.of(tool, {**call.parameters, **self.draft.filled(call)})


_refers = attrgetter("refers")


def _fits(opened: _Open, tool: ToolSpec, parameters: JsonObject) -> bool:
    try:
        if opened.fits is not None and opened.fits(parameters):
            return True
    except (ValueError, UnicodeError):  # `faults` says what it is
        pass
    return not faults(tool.parameters, parameters)


def _places(calls: Sequence[PlannedCall]) -> str:
    return " and ".join(call.where for call in calls[:5])


def _each_meant(
    found: Sequence[tuple[StepId, PlannedCall, Deed]],
    graph: Graph,
    deeds: Mapping[StepId, Sequence[Deed]],
    room: Room,
) -> bool:
    """True if the plan's order says of each two neighbours that both are meant."""
    order = graph.places()
    names = sorted((name for name, _, _ in found), key=lambda name: order.get(name, -1))
    return all(
        meant_by_order(first, second, found[0][2], graph, lambda name: deeds.get(name, ()), room)
        for first, second in itertools.pairwise(names)
    )
