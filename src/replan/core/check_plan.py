"""The checks that a plan passes before anything runs (specification §4.4).

`check_plan` gives the plan as it will run (tool names folded to ids, implied dependencies united with the
declared ones) and every violation, in words that say what would be right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from replan.core import schemas
from replan.core.graph import Graph
from replan.core.ids import canonical, step_id_problem
from replan.core.paths import PathError, check_path, static_steps
from replan.core.policy import PlanLimits
from replan.core.refs import WORDS, Reference, has_references, is_plain, references, whole
from replan.core.types import Action, JsonObject, Plan, Step, ToolSpec
from replan.core.when import read_condition, steps_in_condition


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
    check_schemas: bool = True,
) -> Checked:
    """The plan as it will run, and everything that is wrong with it.

    `earlier`: finished steps of earlier rounds that may be referred to, with their output schemas.
    `used`: ids that new steps may not take. `check_schemas=False` leaves the tools' schemas out.
    """
    if len(plan.steps) > limits.max_steps:
        return Checked(plan, (f"the plan has {len(plan.steps)} steps; at most {limits.max_steps} are allowed",))
    check = _Check(tools, metadata, limits, earlier or {}, used, check_schemas)
    steps = check.run(plan.steps)
    return Checked(plan.model_copy(update={"steps": tuple(steps)}), tuple(dict.fromkeys(check.violations)))


class _Call(NamedTuple):
    """A step's own call or one of its actions."""

    where: str
    tool: ToolSpec | None
    parameters: JsonObject
    repeat: bool


class _Check:
    def __init__(
        self,
        tools: Toolbox,
        metadata: Mapping[str, Any],
        limits: PlanLimits,
        earlier: Mapping[str, JsonObject | None],
        used: Collection[str],
        check_schemas: bool,
    ) -> None:
        self.tools = tools
        self.metadata = metadata
        self.limits = limits
        self.earlier = earlier
        self.used = used
        self.check_schemas = check_schemas
        self.violations: list[str] = []
        self.steps: dict[str, Step] = {}
        self.position: dict[str, int] = {}
        self.actions: dict[str, str] = {}
        """Action id → step id."""
        self.calls: dict[str, list[_Call]] = {}
        self.writers: dict[str, list[str]] = {}
        """Metadata name → the steps whose tools write it, in plan order."""

    def say(self, text: str) -> None:
        self.violations.append(text)

    def run(self, given: Sequence[Step]) -> list[Step]:
        steps = [self._with_tools(step) for step in given]
        for step in steps:
            self._register(step)
        united = [self._with_dependencies(step) for step in steps]
        for step in united:
            self.steps[step.step_id] = step
        self._check_shape(united)
        for step in united:
            self._check_references(step)
        if self.check_schemas:
            for step in united:
                for call in self.calls.get(step.step_id, ()):
                    self._check_parameters(step, call)
        self._check_repeats(united)
        return united

    # ── tools ──

    def _with_tools(self, step: Step) -> Step:
        where = f"step {step.step_id!r}"
        if step.actions and step.tool and step.parameters:
            self.say(f"{where} has both a tool and actions; give one of the two")
        if not step.actions:
            tool = self._tool(step.tool, where)
            self.calls[step.step_id] = [_Call(where, tool, step.parameters, step.repeat)]
            return step.model_copy(update={"tool": tool.id}) if tool and tool.id != step.tool else step
        if len(step.actions) > self.limits.max_fan_out:
            self.say(f"{where} has {len(step.actions)} actions; at most {self.limits.max_fan_out} are allowed")
        actions: list[Action] = []
        calls: list[_Call] = []
        for action in step.actions:
            at = f"{where}, action {action.action_id!r}"
            tool = self._tool(action.tool, at)
            actions.append(action.model_copy(update={"tool": tool.id}) if tool else action)
            calls.append(_Call(at, tool, action.parameters, action.repeat or step.repeat))
        self.calls[step.step_id] = calls
        return step.model_copy(update={"actions": tuple(actions), "tool": "", "parameters": {}})

    def _tool(self, name: str, where: str) -> ToolSpec | None:
        if not name:
            self.say(f"{where} names no tool")
            return None
        tool = self.tools.resolve(name)
        if tool is None:
            near = self.tools.nearest(name)
            hint = f"; there are: {', '.join(near)}" if near else "; there are no tools"
            self.say(f"{where}: the tool {name!r} does not exist{hint}")
        return tool

    # ── ids and dependencies ──

    def _register(self, step: Step) -> None:
        if problem := step_id_problem(step.step_id):
            self.say(f"step id {problem}")
        if step.step_id in self.steps:
            self.say(f"the step id {step.step_id!r} is used twice")
        elif step.step_id in self.used:
            self.say(f"the step id {step.step_id!r} was used earlier in this task; take a new one")
        self.steps[step.step_id] = step
        self.position.setdefault(step.step_id, len(self.position))
        for action in step.actions:
            if problem := step_id_problem(action.action_id):
                self.say(f"step {step.step_id!r}: action id {problem}")
            if action.action_id in self.actions or action.action_id in self.steps:
                self.say(f"the action id {action.action_id!r} is used twice")
            self.actions[action.action_id] = step.step_id
        for call in self.calls[step.step_id]:
            for name in call.tool.output_params if call.tool else ():
                self.writers.setdefault(name, []).append(step.step_id)

    def _with_dependencies(self, step: Step) -> Step:
        united = dict.fromkeys(self._declared(step))
        for reference in _references_of(step):
            owner = self.actions.get(reference.head, reference.head)
            if owner in self.steps:
                united[owner] = None
            if reference.head == "metadata":
                united.update(self._metadata_writers(step, reference.path))
        if step.when is not None:
            condition = read_condition(step.when)
            if condition != step.when:
                step = step.model_copy(update={"when": condition})
            for name in steps_in_condition(condition):
                if name in self.steps:
                    united[name] = None
        for call in self.calls[step.step_id]:
            for name in _missing_required(call):
                if name not in self.metadata:
                    united.update(dict.fromkeys(self._writers_before(step, name)))
        for name in united:
            if name == step.step_id:
                self.say(f"step {step.step_id!r} depends on itself")
        wanted = tuple(name for name in united if name != step.step_id)
        return step if wanted == step.dependencies else step.model_copy(update={"dependencies": wanted})

    def _declared(self, step: Step) -> list[str]:
        out = []
        for name in step.dependencies:
            owner = self.actions.get(name, name)
            if owner in self.steps:
                out.append(owner)
            elif owner not in self.earlier:
                self.say(f"step {step.step_id!r} depends on {name!r}, which is no step of this plan{self._known()}")
        return out

    def _metadata_writers(self, step: Step, path: str) -> dict[str, None]:
        names = static_steps(path) if path and not check_path(path) else None
        name = names[0] if names else None
        if not isinstance(name, str) or name in self.metadata:
            return {}
        return dict.fromkeys(self._writers_before(step, name))

    def _writers_before(self, step: Step, name: str) -> list[str]:
        mine = self.position.get(step.step_id, 0)
        return [writer for writer in self.writers.get(name, ()) if self.position[writer] < mine]

    def _known(self) -> str:
        names = list(self.steps)[:20]
        return f"; there are: {', '.join(names)}" if names else ""

    def _check_shape(self, steps: Sequence[Step]) -> None:
        needs = {s.step_id: tuple(d for d in s.dependencies if d in self.steps) for s in steps}
        graph = Graph.from_needs(needs)
        if circle := graph.cycle():
            self.say(f"the steps wait for each other in a circle: {' → '.join(circle)}")
        elif (depth := len(graph.layers())) > self.limits.max_depth:
            self.say(f"the plan is {depth} steps deep; at most {self.limits.max_depth} are allowed")

    # ── references ──

    def _check_references(self, step: Step) -> None:
        where = f"step {step.step_id!r}"
        if step.for_each is not None:
            reference = whole(step.for_each)
            if reference is None:
                self.say(f"{where}: `for_each` has to be one reference to a list, as ${{step_1.output.items}}")
            elif reference.head in ("item", "index"):
                self.say(f"{where}: `for_each` cannot refer to its own {reference.head}")
        if step.when is not None and not is_plain(step.when):
            self.say(f"{where}: `when` is a JMESPath without braces, as step_1.output.total > `0`")
        elif step.when is not None and (problem := check_path(step.when)):
            self.say(f"{where}: `when`: {problem}")
        for reference in _references_of(step):
            if problem := self._reference_problem(step, reference):
                self.say(f"{where}: {problem}")

    def _reference_problem(self, step: Step, ref: Reference) -> str:
        if ref.problem:
            return ref.problem
        if ref.head in ("item", "index"):
            return "" if step.for_each else f"{ref.raw} is known only inside a step with `for_each`"
        if ref.head == "metadata":
            return self._metadata_problem(step, ref)
        if ref.head in WORDS:
            return ""
        owner = self.actions.get(ref.head, ref.head)
        if owner == step.step_id:
            return f"{ref.raw} refers to its own step"
        if owner not in self.steps:
            if ref.head in self.earlier:
                return self._path_problem(ref, self.earlier[ref.head])
            written = ("$" + ref.raw) if ref.raw.startswith("$") else "{{" + ref.raw + "}}"
            return f"{ref.raw}: {ref.head!r} is no step{self._known()}; if it is meant as text, write {written}"
        if ref.action is not None and self.actions.get(ref.action) != owner:
            names = [a.action_id for a in self.steps[owner].actions]
            return f"{ref.raw}: step {owner!r} has no action {ref.action!r}; it has: {', '.join(names) or 'none'}"
        return self._path_problem(ref, self.produced(ref))

    def _metadata_problem(self, step: Step, ref: Reference) -> str:
        names = static_steps(ref.path) if ref.path else None
        name = names[0] if names else None
        if not isinstance(name, str) or name in self.metadata or self._writers_before(step, name):
            return ""
        has = ", ".join(map(str, self.metadata)) or "nothing"
        return f"{ref.raw}: the metadata has no {name!r}; it has: {has}"

    def produced(self, ref: Reference) -> JsonObject | None:
        """The schema of what the reference's head gives, without its path."""
        if not self.check_schemas:
            return None
        owner = self.steps.get(self.actions.get(ref.head, ref.head))
        if owner is None:
            return self.earlier.get(ref.head)
        calls = self.calls[owner.step_id]
        action = ref.action or (ref.head if ref.head in self.actions else None)
        if not owner.actions:
            one = calls[0].tool.output_schema if calls[0].tool else None
        elif action is not None:
            at = next(n for n, a in enumerate(owner.actions) if a.action_id == action)
            tool = calls[at].tool
            one = tool.output_schema if tool else None
        else:
            return None
        if owner.for_each is None:
            return one
        return {"type": "array", "items": one} if one and "$defs" not in one and action is None else None

    def _path_problem(self, ref: Reference, schema: JsonObject | None) -> str:
        steps = static_steps(ref.path) if ref.path else []
        if steps is None or schema is None:
            return ""
        try:
            schemas.schema_at(schema, steps)
        except schemas.PathUnknown as error:
            has = ", ".join(error.available[:20])
            return f"{ref.raw} selects nothing: the output of {ref.head!r} has no {error.name!r}; it has: {has}"
        except PathError:
            return ""
        return ""

    # ── parameters ──

    def _check_parameters(self, step: Step, call: _Call) -> None:
        if call.tool is None:
            return
        filled = [name for name in _missing_required(call) if name in self.metadata]
        parameters = {**call.parameters, **{name: self.metadata[name] for name in filled}} if filled else call.parameters
        for error in schemas.sorted_errors(call.tool.parameters, parameters):
            if not self._excused(step, error):
                self.say(f"{call.where}: {self._parameter_problem(call.tool, error)}")
        if not has_references(parameters):
            return
        for path, text, wanted in schemas.parameter_schemas(call.tool.parameters, parameters):
            reference = whole(text)
            if reference is None or reference.problem or wanted is None:
                continue
            steps = static_steps(reference.path) if reference.path else []
            schema = self.produced(reference) if reference.head not in WORDS else None
            if steps is None or schema is None:
                continue
            try:
                given = schemas.types_of(schemas.schema_at(schema, steps))
            except schemas.PathUnknown:
                continue  # said with the references
            needed = schemas.types_of(wanted)
            if not schemas.can_fit(given, needed):
                self.say(
                    f"{call.where}: {schemas.place(path)} has to be {_either(needed)}, "
                    f"and {reference.raw} gives {_either(given)}"
                )

    def _excused(self, step: Step, error: Any) -> bool:
        """True if the error may go away once references are filled in."""
        if error.validator == "required" and not error.absolute_path:
            missing = [name for name in error.validator_value if name not in error.instance]
            name = next((n for n in missing if f"{n!r}" in error.message), None)
            return name is not None and bool(self._writers_before(step, name))
        instance = error.instance
        if isinstance(instance, str):
            if is_plain(instance):
                return False
            return whole(instance) is not None or error.validator != "type"
        if error.validator in ("required", "additionalProperties", "type", "minProperties", "maxProperties"):
            return False
        return has_references(instance)

    def _parameter_problem(self, tool: ToolSpec, error: Any) -> str:
        text = schemas.describe(error)
        if error.validator in ("required", "additionalProperties") and not error.absolute_path:
            names = ", ".join(tool.parameters.get("properties", {})) or "none"
            return f"tool {tool.id!r}: {text}; its parameters are: {names}"
        return f"tool {tool.id!r}: {text}"

    # ── effects ──

    def _check_repeats(self, steps: Sequence[Step]) -> None:
        seen: dict[str, list[_Call]] = {}
        for step in steps:
            for call in self.calls[step.step_id]:
                if call.tool is not None and call.tool.effect == "once":
                    key = f"{call.tool.id} {canonical(call.parameters)}"
                    if step.for_each is not None:
                        key += f" {step.for_each}"
                    seen.setdefault(key, []).append(call)
        for calls in seen.values():
            if len(calls) > 1 and not all(call.repeat for call in calls):
                places = " and ".join(call.where for call in calls[:5])
                tool = calls[0].tool.id if calls[0].tool else ""
                self.say(
                    f"{places} make the same call of {tool!r}, which has an effect; leave one out, or set "
                    "`repeat: true` on each if the effect is wanted that often"
                )


def _references_of(step: Step) -> list[Reference]:
    found = list(references(step.parameters))
    for action in step.actions:
        found.extend(references(action.parameters))
    if step.for_each is not None:
        found.extend(references(step.for_each))
    return found


def _missing_required(call: _Call) -> list[str]:
    if call.tool is None:
        return []
    required = call.tool.parameters.get("required", ())
    return [name for name in required if name not in call.parameters]


def _either(types: frozenset[str] | None) -> str:
    names = {"boolean": "a truth value", "integer": "a whole number", "number": "a number", "string": "a text",
             "array": "a list", "object": "an object", "null": "null"}  # fmt: skip
    return " or ".join(names[name] for name in sorted(types or ()))
