"""Tools and data in words, for prompts: short, bounded, and fenced by whoever uses them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

from replan.core.calls.telling import unique_words
from replan.core.tools.samples import shown_samples
from replan.core.types import JsonObject, ToolId, ToolSpec
from replan.core.waits.tools import SOURCE
from replan.reasoning.prompting.history import shorten
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.previous import Use, previous_text
from replan.reasoning.prompting.prompts import fence
from replan.reasoning.prompting.view import TaskView

_EFFECTS = {
    "reads": "only reads",
    "repeatable": "has an effect; calling it again does no harm",
    "once": "has an effect: each call does it once more",
}


_OUTPUT_CHARS = 8_000
_PEOPLE_CHARS = {"standard": 6_000, "small": 500}


def tool_lines(tools: Sequence[ToolSpec], *, style: str, limit: int, sampled: Collection[ToolId] = ()) -> str:
    """Every tool, one after the other; descriptions are cut so that all of them stay near `limit` characters, and what a tool
    takes and gives is at `_MOST_OF_SHAPE`. `sampled`: those whose samples are shown beside them."""
    if not tools:
        return "(there are no tools)"
    each = max(60, limit // len(tools))
    if style == "small":
        return "\n".join(_line(tool, min(each, 240)) for tool in tools)
    return "\n\n".join(_entry(tool, each, sampled=tool.id in sampled) for tool in tools)


_SAMPLES_CHARS = 8_000


def samples_of(tools: Sequence[ToolSpec], style: str) -> dict[ToolId, str]:
    """The samples that whoever plans is shown, each as a line, by tool; of a small model's prompt none."""
    return {} if style == "small" else shown_samples(tools, _SAMPLES_CHARS)


def samples_text(samples: Mapping[ToolId, str]) -> str:
    """The same as a part of the prompt; empty if there are none."""
    if not samples:
        return ""
    return f"{_SAMPLES}\n{fence('samples', chr(10).join(dict.fromkeys(samples.values())))}"


_SAMPLES = (
    "A little of the data behind tools, to see its form and spelling; there may be more and other data, and no value of it is to be taken "
    "for what a call would give:"
)


_MOST_OF_SHAPE = 2_000
"""Characters at which what one tool takes, or gives, is cut where there is no more room."""
_MOST_OF_NAMES = 400
"""The same of the names of its parameters in a list of tools."""


def tool_index(tools: Sequence[ToolSpec], *, limit: int, effects: bool = False) -> str:
    """Every tool in one line each: id, parameter names, description; with `effects` which of them have one."""
    each = max(40, limit // max(1, len(tools)))
    return "\n".join(
        f"{tool.id}({shorten(', '.join(_properties(tool.parameters)), max(each, _MOST_OF_NAMES))})"
        f"{' [effect]' if effects and tool.effect != 'reads' else ''}: {shorten(one_line(tool.description), each)}"
        for tool in tools
    )


def _line(tool: ToolSpec, each: int) -> str:
    return f"{shorten(signature(tool), 2 * _MOST_OF_SHAPE)}: {shorten(one_line(tool.description or tool.name), each)}"


def _entry(tool: ToolSpec, each: int, *, sampled: bool) -> str:
    told = (tool.plain_description if sampled else "") or tool.description
    if tool.source == SOURCE:  # one of Replan's own, in every prompt: needed now and then
        gives = "; output: a text, or what its `schema` says" if tool.asks_model else ""
        return f"tool: {signature(tool)}\nwhat: {one_line(told)}\neffect: only reads{gives}"
    lines = [f"tool: {tool.id}", f"what: {shorten(one_line(told or tool.name or tool.id), each)}"]
    lines.append(f"effect: {_effect(tool)}{_change(tool)}")
    lines.append(
        f"parameters: {shorten(_json(_trimmed(inline(tool.parameters))), max(each, _MOST_OF_SHAPE))}"
    )
    if tool.output_schema is not None:
        lines.append(f"output: {shorten(shape(inline(tool.output_schema)), max(each, _MOST_OF_SHAPE))}")
        if fields := _described_fields(inline(tool.output_schema)):
            lines.append(f"output fields: {shorten(fields, max(each, 1_000))}")
    else:
        lines.append("output: not declared (refer to all of it, unless the description names its fields)")
    return "\n".join(lines)


def _effect(tool: ToolSpec) -> str:
    if tool.effect == "once" and tool.unique_by:
        return f"has an effect, once for each {unique_words(tool)}: another call with the same is no other effect"
    return _EFFECTS[tool.effect]


def _change(tool: ToolSpec) -> str:
    """How long a reading is good."""
    if tool.effect != "reads":
        return ""
    return (
        "; volatile: what it reads changes by itself"
        if tool.volatile
        else "; what it reads does not change"
        if tool.stable
        else ""
    )


def signature(tool: ToolSpec) -> str:
    """The tool as `name(city: string, days?: integer (1 to 7)) -> {temperature: number}`."""
    schema = inline(tool.parameters)
    required = set(schema.get("required", ()))
    parts = [
        f"{name}{'' if name in required else '?'}: {shape(child)}{_meaning(child)}"
        for name, child in _properties(schema).items()
        if isinstance(child, dict)
    ]
    result = f" -> {shape(inline(tool.output_schema))}" if tool.output_schema is not None else ""
    return f"{tool.id}({', '.join(parts)}){result}"


def _meaning(schema: JsonObject) -> str:
    told = schema.get("description")
    return f" ({shorten(one_line(told), 80)})" if isinstance(told, str) and told.strip() else ""


def shape(schema: Any, depth: int = 0) -> str:
    """A schema as a short type: `{id: string, items: [{name: string}]}`."""
    if not isinstance(schema, dict) or depth > 6:
        return "any"
    if "const" in schema:
        return _json(schema["const"])
    if isinstance(schema.get("enum"), list):
        shown = [_json(value) for value in schema["enum"][:12]]
        return "|".join([*shown, "…"] if len(schema["enum"]) > 12 else shown)
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, list):
        return "|".join(dict.fromkeys(shape(branch, depth + 1) for branch in branches))
    kind = schema.get("type")
    if isinstance(kind, list):
        return "|".join(shape({**schema, "type": one}, depth) for one in kind)
    if kind == "array":
        return f"[{shape(schema.get('items'), depth + 1)}]"
    if kind == "object" or "properties" in schema:
        return _object_shape(schema, depth)
    return str(kind) if kind else "any"


def _object_shape(schema: JsonObject, depth: int) -> str:
    fields = _properties(schema)
    if fields:
        return "{" + ", ".join(f"{name}: {shape(child, depth + 1)}" for name, child in fields.items()) + "}"
    values = schema.get("additionalProperties")
    return "{any key: " + shape(values, depth + 1) + "}" if isinstance(values, dict) and values else "object"


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _described_fields(schema: JsonObject) -> str:
    """What the declared fields mean, where the schema says so."""
    items = schema.get("items")
    at = items if schema.get("type") == "array" and isinstance(items, dict) else schema
    told = [
        f"{name}: {one_line(child['description'])}"
        for name, child in _properties(at).items()
        if isinstance(child, dict) and isinstance(child.get("description"), str)
    ]
    return "; ".join(told)


def _trimmed(node: Any) -> Any:
    """A schema without what only documents it for people (`title`, `$schema`, …)."""
    if isinstance(node, list):
        return [_trimmed(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for key, value in node.items():
        if key == "properties" and isinstance(value, dict):
            out[key] = {name: _trimmed(child) for name, child in value.items()}
        elif not (key in ("title", "$schema", "$id") and isinstance(value, str)):
            out[key] = _trimmed(value)
    return out


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def today_text(task: TaskView, style: str) -> str:
    """The date, with its day of the week where "next Monday" has to be worked out; empty if it is not said."""
    if not task.today:
        return ""
    if style == "small":
        return f"Today is {task.today}."
    return f"Today is {task.today}, a {_DAYS[date.fromisoformat(task.today).weekday()]}."


def task_data(task: TaskView, *, limit: int) -> str:
    """Metadata and context as JSON; empty if there are none."""
    return "\n".join(
        f"{name}: {shorten(_json(value), limit)}"
        for name, value in (("metadata", task.metadata), ("context", task.context))
        if value
    )


def output_text(task: TaskView) -> str:
    """What the final answer has to look like, for whoever plans; empty where it is free text."""
    if task.output_schema is None:
        return ""
    wanted = shorten(_json(_trimmed(inline(task.output_schema))), _OUTPUT_CHARS)
    return f"The final answer has to be a value of this JSON Schema; plan whatever its fields need:\n{wanted}"


def data_text(task: TaskView, data: str, style: str, use: Use = "look") -> str:
    """The data of a task for a prompt, under it the tasks that it follows, and what people have said."""
    parts = [fence("data", data) if data else "", previous_text(task, style, use), people_text(task, style)]
    return "\n\n".join(part for part in parts if part)


def people_text(task: TaskView, style: str) -> str:
    """What people were asked and have said, the latest last; empty if nobody has spoken. Of too much the latest."""
    given = _GIVEN if task.given and style != "small" else ""
    room = _PEOPLE_CHARS[style]
    kept: list[str] = []
    for line in reversed(task.people):
        kept.insert(0, f"- {shorten(line, max(200, room))}")
        room -= len(line)
        if room <= 0:
            break
    if not kept:
        return given
    title = (
        "People say:" if style == "small" else "What people were asked, and have said (it is to be heeded):"
    )
    said = f"{title}\n{fence('people', chr(10).join(kept))}"
    return f"{given}\n\n{said}" if given else said


_GIVEN = (
    "Plan 1 was given by a person: its tools, values and order are what that person wants. Depart from it only where it cannot "
    "work, in as little as will do; what was done otherwise than it says is told in the answer and in `failures`."
)


def one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
