"""What a server says of its tools, as ours: effects from the annotations, output schemas without their wrapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from replan.core.references.kept import without_files
from replan.core.tools.samples import sample_problem
from replan.core.types import Effect, JsonObject, ToolSpec
from replan.errors import InputError

if TYPE_CHECKING:
    from mcp_types import Resource, Tool

_EFFECTS = get_args(Effect)
UNFINISHED = "replan/resultType"
"""In a result's `_meta`: the `resultType` of one that says of itself that it is no whole one, which the library may not see."""
WRAPPED = "x-fastmcp-wrap-result"
"""FastMCP's mark on an output schema: the result is `{"result": value}` because the value is no object."""


@dataclass(frozen=True)
class Override:
    """What is known better than the server says it. None: as the server says."""

    effect: Effect | None = None
    volatile: bool | None = None
    timeout_secs: float | None = None
    errors_are_clean: bool | None = None
    honours_key: bool | None = None

    @classmethod
    def of(cls, tool: str, told: object, where: str) -> Override:
        """From a table; `InputError` says what may stand in it."""
        if isinstance(told, Override):
            return told
        if told in _EFFECTS:
            return cls(effect=told)  # type: ignore[arg-type]
        known = tuple(cls.__dataclass_fields__)
        if not isinstance(told, Mapping) or not set(told) <= set(known):
            raise InputError(
                f"{where}: tools.{tool} is one of {', '.join(_EFFECTS)}, or has some of {', '.join(known)}"
            )
        for key, value in told.items():
            right = {"effect": f"one of {', '.join(_EFFECTS)}", "timeout_secs": "a number above 0"}
            if key == "effect":
                fits = value in _EFFECTS
            elif key == "timeout_secs":
                fits = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            else:
                fits = isinstance(value, bool)
            if not fits:
                raise InputError(
                    f"{where}: tools.{tool}.{key} is {right.get(key, 'true or false')}, not {value!r}"
                )
        return cls(**told)


@dataclass(frozen=True)
class Listed:
    """A tool of a server: its specification, and how its results come."""

    spec: ToolSpec
    output: JsonObject | None
    """The output schema as the server gives it."""
    wrapped: bool


def listed(
    tool: Tool,
    output: JsonObject | None,
    *,
    source: str,
    trust_annotations: bool,
    override: Override,
    timeout_secs: float | None,
) -> Listed:
    """The tool, with what is said of it here taken before what the server says.

    Effect: `readOnlyHint` reads, `idempotentHint` repeatable, else once; hints of a server that is not trusted are
    not looked at. An error that a tool reports is taken at its word that nothing happened (see `results`).
    """
    hints = tool.annotations
    effect: Effect = "once"
    if hints is not None and trust_annotations:
        effect = "reads" if hints.read_only_hint else "repeatable" if hints.idempotent_hint else "once"
    description = (tool.description or "").strip()
    if hints is not None and hints.open_world_hint:
        description = f"{description}\nIt reaches systems outside of its server.".strip()
    wrapped = output is not None and _is_wrapping(output, tool.name)
    shown = output
    if wrapped and output is not None:
        shown = _inside(output)
    own: dict[str, Any] = {"timeout_secs": timeout_secs}
    for key in Override.__dataclass_fields__:
        if (value := getattr(override, key)) is not None:
            own[key] = value
    spec = ToolSpec(
        id=tool.name,
        name=tool.title or (hints.title if hints is not None else None) or "",
        description=description,
        parameters=without_files(tool.input_schema),
        output_schema=shown,
        source=source,
        **{"effect": effect, **own},
    )
    return Listed(spec, output, wrapped)


_MOST_RESOURCES, _MOST_TOLD = 20, 200


def resources_told(resources: Sequence[Resource]) -> JsonObject | None:
    """What there is to read on a server, in short; None if nothing is."""
    told = [
        {
            name: value[:_MOST_TOLD] if isinstance(value, str) else value
            for name, value in (
                ("uri", str(one.uri)),
                ("name", one.name),
                ("description", one.description),
                ("type", one.mime_type),
                ("size", one.size),
            )
            if value is not None
        }
        for one in resources[:_MOST_RESOURCES]
    ]
    while told and sample_problem({"resources": told}):
        told.pop()
    return {"resources": told} if told else None


def _is_wrapping(output: JsonObject, tool: str) -> bool:
    """Whether the schema wraps a value that is no object: by FastMCP's mark, or the title that the Python SDK makes
    of the function's name, which the tool's need not be. A model's class, whose field it may be, begins with a capital."""
    properties = output.get("properties")
    if (
        not isinstance(properties, dict)
        or set(properties) != {"result"}
        or output.get("required") != ["result"]
    ):
        return False
    if output.get(WRAPPED) is True:
        return True
    title = output.get("title")
    function = title.removesuffix("Output") if isinstance(title, str) and title.endswith("Output") else ""
    return function == tool or (function.isidentifier() and not function[0].isupper())


def _inside(output: JsonObject) -> JsonObject | None:
    """The schema of the value that is wrapped; None where it says nothing."""
    inner = output["properties"]["result"]
    if not isinstance(inner, dict):
        return None
    schema = {key: value for key, value in inner.items() if key != "title"}
    for shelf in ("$defs", "definitions"):
        if shelf in output:
            schema.setdefault(shelf, output[shelf])
    said = set(schema) - {"$defs", "definitions", "description"}
    return schema if said else None
