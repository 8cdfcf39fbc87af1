"""A small model writes a whole object where one of its fields is meant: mended where only one can be meant. A field
of the wrong step, or of a list, is not mended: the correction says where it is.

Only where the schemas tell: the object comes from a step of the plan (or an `earlier` one, whose output schemas are
given by id), or is an item of a list that does, and the tool declares its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replan.core.data import schemas
from replan.core.references.paths import static_steps
from replan.core.references.refs import ID, Reference, parse, references, whole
from replan.core.types import JsonObject, Plan, Step, StepId, ToolSpec
from replan.reasoning.prompting.inlined import inline

_OBJECT = frozenset({"object"})
_LIST = frozenset({"array"})


Earlier = Mapping[StepId, JsonObject | None]
_NONE: Earlier = {}


def name_fields(plan: Plan, tools: Sequence[ToolSpec], earlier: Earlier = _NONE) -> Plan:
    """The plan with a field in place of an object that does not fit where it stands.

    It is the field that is called like the parameter, else the only one; of a `for_each` the only list.
    """
    known = _Known(plan, tools, earlier)
    steps = tuple(known.mended(step) for step in plan.steps)
    return plan if steps == plan.steps else plan.model_copy(update={"steps": steps})


def of_steps(plan: Plan, only: StepId | None) -> Sequence[Step]:
    """The steps that something is told of: all of the plan's, or one."""
    return plan.steps if only is None else [step for step in plan.steps if step.step_id == only]


def hints(
    plan: Plan, tools: Sequence[ToolSpec], earlier: Earlier = _NONE, *, only: StepId | None = None
) -> list[str]:
    """Of references to a field that is not there, where it is: in the items of the list, or in another step."""
    return [text for _, text in _hints(plan, _Known(plan, tools, earlier), only)]


def _hints(plan: Plan, known: _Known, only: StepId | None) -> Iterator[tuple[Reference, str]]:
    for step in of_steps(plan, only):
        for ref in references(step.parameters):
            if (other := known.elsewhere(ref, step)) != "":
                yield ref, f"step {step.step_id!r}: instead of {ref.raw} write {other}"
            for for_each, field in known.field_of_items(ref) if step.for_each is None else ():
                yield (
                    ref,
                    (
                        f"step {step.step_id!r}: {ref.raw} is a field of a list's items; to make the call for every "
                        f'item, write "for_each": "{for_each}" and ${{item.{field}}}'
                    ),
                )


def strict_problems(
    plan: Plan, tools: Sequence[ToolSpec], earlier: Earlier = _NONE, *, only: StepId | None = None
) -> list[str]:
    """References to fields that no schema declares. An open object may have more, and a small model hardly means that."""
    known = _Known(plan, tools, earlier)
    told = list(_hints(plan, known, only))
    hinted = {ref.raw for ref, _ in told}
    return [text for _, text in told] + [
        f"step {step.step_id!r}: {ref.raw}: the output of {ref.head!r} declares no such field; use one that stands after ->"
        for step in of_steps(plan, only)
        for ref in references(step.parameters)
        if ref.path and not ref.action and known._has(ref.head, ref) is False and ref.raw not in hinted
    ]


def item_problems(
    plan: Plan, tools: Sequence[ToolSpec], earlier: Earlier = _NONE, *, only: StepId | None = None
) -> list[str]:
    """Items of a list where their type does not fit. (Fields that they do not have are found by `check_plan`.)"""
    known = _Known(plan, tools, earlier)
    return [
        f"step {step.step_id!r}: {text}"
        for step in of_steps(plan, only)
        if (item := known.item(step)) is not None
        for text in _item_problems(step, item, known.parameters.get(step.tool, {}))
    ]


def _item_problems(step: Step, item: JsonObject, parameters: JsonObject) -> Iterator[str]:
    given = schemas.types_of(item)
    for place, text, wanted in schemas.parameter_schemas(parameters, step.parameters):
        one, needed = whole(text), schemas.types_of(wanted)
        if one is None or one.head != "item" or one.path or schemas.can_fit(given, needed):
            continue
        has = ", ".join(f"${{item.{name}}}" for name in _fields(item))
        yield (
            f"{schemas.place(place)} has to be {schemas.words_of(needed)}, and {text} gives "
            f"{schemas.words_of(given)}" + (f"; its fields are {has}" if has else "")
        )


class _Known:
    """What the tools' schemas tell of a plan's references."""

    def __init__(self, plan: Plan, tools: Sequence[ToolSpec], earlier: Earlier) -> None:
        self.steps = {step.step_id: step for step in plan.steps}
        self.parameters = {tool.id: inline(tool.parameters) for tool in tools}
        self._outputs = {
            tool.id: inline(tool.output_schema) for tool in tools if tool.output_schema is not None
        }
        self._earlier = {name: inline(schema) for name, schema in earlier.items() if schema is not None}

    def mended(self, step: Step) -> Step:
        if step.actions:
            return step
        if step.for_each is not None:
            step = step.model_copy(update={"for_each": self._list_of(step.for_each)})
        item = self.item(step)
        wanted = self.parameters.get(step.tool, {}).get("properties", {})
        parameters = {
            name: self._value(value, wanted.get(name), name, item) for name, value in step.parameters.items()
        }
        return step.model_copy(update={"parameters": parameters})

    def item(self, step: Step) -> JsonObject | None:
        """The schema of what `${item}` is in this step, if it is known."""
        ref = whole(step.for_each) if step.for_each and not step.actions else None
        found = self._given(ref, None) if ref is not None else None
        items = found.get("items") if found is not None else None
        return items if isinstance(items, dict) else None

    def field_of_items(self, ref: Reference) -> Iterator[tuple[str, str]]:
        """The list and the field, where a reference names a field of a list's items as if of the list."""
        list_path, _, field = ref.path.rpartition(".")
        of_list = ref._replace(path=list_path)
        given = self._given(of_list, None) if ref.path and ref.action is None else None
        if given is None or schemas.types_of(given) != _LIST or not ID.fullmatch(field):
            return
        if isinstance(items := given.get("items"), dict) and field in _fields(items):
            yield f"${{{ref.head}.output{'.' if list_path else ''}{list_path}}}", field

    def _given(self, ref: Reference, item: JsonObject | None) -> JsonObject | None:
        """The schema of what a reference gives."""
        path = [] if not ref.path else static_steps(ref.path)
        if ref.problem or path is None:
            return None
        try:
            return schemas.schema_at(item if ref.head == "item" else self._output(ref.head), path)
        except schemas.PathUnknown:
            return None  # the checks say so

    def _output(self, step_id: str) -> JsonObject | None:
        step = self.steps.get(step_id)
        if step is None:
            return self._earlier.get(step_id)
        if step.actions or step.tool not in self._outputs:
            return None
        output = self._outputs[step.tool]
        return output if step.for_each is None else {"type": "array", "items": output}

    def elsewhere(self, ref: Reference, step: Step) -> str:
        """The same path in the one step that has it, where the named one has not; empty if there is none."""
        if not ref.path or ref.action or self._has(ref.head, ref) is not False:
            return ""
        known = {**self.steps, **self._earlier}
        others = [name for name in known if name != step.step_id and self._has(name, ref)]
        return _written(others[0], ref.path) if len(others) == 1 else ""

    def _has(self, step_id: str, ref: Reference) -> bool | None:
        """Whether a step's output has what the reference's path names; None if it cannot be told."""
        output, path = self._output(step_id), static_steps(ref.path) if not ref.problem else None
        if output is None or path is None or not any(isinstance(part, str) for part in path):
            return None  # any list has a first item: that says nothing of what is meant
        try:
            return True if schemas.schema_at(output, path) is not None else None
        except schemas.PathUnknown:
            return False

    def _list_of(self, for_each: str) -> str:
        ref = whole(for_each)
        given = self._given(ref, None) if ref is not None else None
        if ref is None or given is None or schemas.types_of(given) != _OBJECT:
            return for_each
        lists = [name for name, schema in _fields(given).items() if schemas.types_of(schema) == _LIST]
        return _with_field(ref, lists[0]) if len(lists) == 1 else for_each

    def _value(self, value: Any, wanted: Any, name: str, item: JsonObject | None) -> Any:
        if isinstance(value, list) and isinstance(wanted, dict):
            return [self._value(one, wanted.get("items"), name, item) for one in value]
        if not isinstance(value, str) or not isinstance(wanted, dict):
            return value
        ref = whole(value)
        if ref is not None:
            field = self._field(ref, item, schemas.types_of(wanted), name)
            return _with_field(ref, field) if field else value
        for part in parse(value):
            # inside a text nothing is called like the parameter
            if not isinstance(part, Reference) or "$" + part.raw in value:
                continue
            if field := self._field(part, item, frozenset({"string"}), ""):
                value = value.replace(part.raw, _with_field(part, field))
        return value

    def _field(
        self, ref: Reference, item: JsonObject | None, needed: frozenset[str] | None, name: str
    ) -> str:
        """The field that is meant; empty if the object fits, or if it cannot be told."""
        given = self._given(ref, item)
        if given is None or schemas.types_of(given) != _OBJECT or schemas.can_fit(_OBJECT, needed):
            return ""
        fields = _fields(given)
        meant = name if name in fields else next(iter(fields), "") if len(fields) == 1 else ""
        if name == "":
            return meant  # a text takes any field
        return meant if meant and schemas.can_fit(schemas.types_of(fields[meant]), needed) else ""


def _fields(schema: JsonObject) -> JsonObject:
    """The fields that a reference can name without quotes."""
    found = schema.get("properties")
    return {name: one for name, one in found.items() if ID.fullmatch(name)} if isinstance(found, dict) else {}


def _with_field(ref: Reference, field: str) -> str:
    return _written(ref.head, f"{ref.path}.{field}" if ref.path else field)


def _written(head: str, path: str) -> str:
    dot = "" if path.startswith("[") else "."
    return f"${{{head}{'' if head == 'item' else '.output'}{dot}{path}}}"
