"""A function's parameters: their JSON Schema, and how JSON becomes arguments."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Optional, Required, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypedDict

from replan.core.failures.faults import text_of
from replan.core.secrets import holds_secret, is_secret_parameter
from replan.core.types import JsonObject
from replan.errors import ToolCallError, ToolDefinitionError
from replan.tools.functions.annotations import adapted, admits_none, evaluate
from replan.tools.functions.context import ToolContext
from replan.tools.functions.decorator import innermost, refused
from replan.tools.functions.returned import UNREADABLE, PlainSchema

_MAX_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Arguments:
    """How a function is given its arguments; everything that can be known before a call is known here."""

    tool: str
    schema: JsonObject
    secrets: tuple[str, ...]
    validate: Callable[[bytes], dict[str, Any]]
    injected: tuple[str, ...]
    """Parameters that are given the `ToolContext`."""
    positional: tuple[tuple[str, Any], ...]
    """Positional-only parameters, in order, with their defaults."""

    def read(self, parameters: JsonObject) -> dict[str, Any]:
        """JSON parameters as the values that the function is annotated for; `ToolCallError` (`parameter`)."""
        try:
            return self.validate(to_json(parameters))
        except ValidationError as error:
            problem = "; ".join(self._in_words(each) for each in error.errors(include_url=False))
        except (PydanticSerializationError, ValueError) as error:
            problem = f"they are not JSON: {error}"
        except Exception as error:  # noqa: BLE001 - a validator of the author's may raise what it likes
            problem = f"a validator raised {text_of(error)}"
        raise ToolCallError(
            f"wrong parameters for the tool {self.tool!r}: {problem}", kind="parameter", happened="no"
        ) from None  # the chain would show the values of secrets

    def given(self, values: dict[str, Any], context: ToolContext) -> tuple[list[Any], dict[str, Any]]:
        """Validated values as positional and keyword arguments; `values` is used up."""
        for name in self.injected:
            values[name] = context
        if not self.positional:
            return [], values
        return [values.pop(name) if name in values else default for name, default in self.positional], values

    def _in_words(self, error: Any) -> str:
        path = error["loc"]
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        if error["type"] == "missing":
            return f"{where} is missing"
        if error["type"] == "extra_forbidden" and len(path) == 1:
            known = ", ".join(self.schema["properties"]) or "none"
            return f"{where} is not one of its parameters ({known})"
        said = f"{where}: {error['msg']}" if where else str(error["msg"])
        if path and path[0] in self.secrets:
            return said
        shown = json.dumps(error["input"], ensure_ascii=False, default=repr)
        return f"{said}, not {shown if len(shown) <= _MAX_SHOWN else shown[: _MAX_SHOWN - 1] + '…'}"


def read_signature(
    function: Callable[..., Any],
    name: str,
    *,
    texts: Mapping[str, str],
    namespace: Mapping[str, Any],
    secrets: tuple[str, ...],
) -> Arguments:
    """The parameters of a function that is to be a tool.

    `texts`: what the docstring says of each. `namespace`: local names for forward references. `secrets`: names that
    the author declared. Raises `ToolDefinitionError` with the reason when it cannot be a tool.
    """
    injected: list[str] = []
    positional: list[tuple[str, Any]] = []
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for parameter in _open_parameters(function):
        annotation = _evaluated(function, parameter, namespace)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append((parameter.name, parameter.default))
        if _takes_context(parameter, annotation):
            injected.append(parameter.name)
            continue
        annotation = _described(annotation, texts.get(parameter.name, ""))
        required = parameter.default is parameter.empty
        if isinstance(parameter.default, FieldInfo):
            annotation = Annotated[annotation, parameter.default]
            required = parameter.default.is_required()
        elif not required:
            defaults[parameter.name] = parameter.default
            if parameter.default is None and not admits_none(annotation):
                annotation = Optional[annotation]  # noqa: UP045  (made at run time)
        fields[parameter.name] = (Required if required else NotRequired)[adapted(annotation)]
    try:
        adapter, schema = _as_object(fields)
    except UNREADABLE as error:
        raise _no_schema(function, fields, error) from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    schema.setdefault("additionalProperties", False)
    keys = {field: _key(fields[field], field) for field in fields}
    hidden = _hidden(function, schema, keys, secrets)
    for field, default in defaults.items():
        written = _written_default(function, field, adapter, default)
        if keys[field] in schema["properties"] and keys[field] not in hidden:
            schema["properties"][keys[field]]["default"] = written
    return Arguments(
        name, schema, hidden, adapter.validator.validate_json, tuple(injected), tuple(positional)
    )


def _open_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that are still to be given: none that a partial has bound already."""
    signature = inspect.signature(function)
    bound = getattr(function, "keywords", {}) if type(function).__name__ == "partial" else {}
    left = [parameter for parameter in signature.parameters.values() if parameter.name not in bound]
    plain = innermost(function)
    qualname = getattr(plain, "__qualname__", "")
    in_class = "." in qualname and not qualname.rpartition(".")[0].endswith("<locals>")
    if left and left[0].name in ("self", "cls") and in_class and left[0].annotation is left[0].empty:
        reason = (
            f"it is a method without its object; give the bound method of an instance: obj.{plain.__name__}"
        )
        raise refused(function, reason)
    return left


def _evaluated(
    function: Callable[..., Any], parameter: inspect.Parameter, namespace: Mapping[str, Any]
) -> Any:
    try:
        return evaluate(function, parameter.name, parameter.annotation, namespace)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        hint = "; import it outside of `if TYPE_CHECKING`" if isinstance(error, NameError) else ""
        raise refused(
            function,
            f"the annotation {parameter.annotation!r} of parameter {parameter.name!r} cannot be resolved ({why}){hint}",
        ) from error


def _takes_context(parameter: inspect.Parameter, annotation: Any) -> bool:
    if parameter.annotation is parameter.empty:
        return parameter.name == "ctx"
    return annotation is ToolContext or ToolContext in get_args(annotation)


def _described(annotation: Any, text: str) -> Any:
    """The annotation with a description: its own, else what the docstring says."""
    for note in getattr(annotation, "__metadata__", ()) if get_origin(annotation) is Annotated else ():
        if isinstance(note, FieldInfo) and note.description:
            return annotation
        said = note if isinstance(note, str) else getattr(note, "documentation", None)
        if isinstance(said, str):
            text = said
    return Annotated[annotation, Field(description=text)] if text else annotation


def _as_object(fields: Mapping[str, Any]) -> tuple[TypeAdapter[Any], JsonObject]:
    """One object with these fields and no others. A TypedDict, as it takes every name that a parameter can have."""
    make: Any = TypedDict
    shape = make("Parameters", dict(fields))
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    adapter: TypeAdapter[Any] = TypeAdapter(shape)
    return adapter, adapter.json_schema(schema_generator=PlainSchema)


def _no_schema(
    function: Callable[..., Any], fields: Mapping[str, Any], error: Exception
) -> ToolDefinitionError:
    """Why the parameters have no schema, naming the first one that has none by itself."""
    for name, annotation in fields.items():
        try:
            _as_object({name: annotation})
        except UNREADABLE as own:
            shown = inspect.formatannotation(_bare(get_args(annotation)[0]))
            return refused(
                function, f"parameter {name!r} has a type without JSON Schema, {shown}: {_first_line(own)}"
            )
    return refused(function, f"its parameters have no JSON Schema: {_first_line(error)}")


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].partition(". Set `arbitrary_types_allowed")[0]


def _key(annotation: Any, name: str) -> str:
    """The name of a parameter in JSON: its alias, where it has one."""
    inner = get_args(annotation)[0]
    for note in reversed(getattr(inner, "__metadata__", ())):
        alias = getattr(note, "validation_alias", None) or getattr(note, "alias", None)
        if isinstance(alias, str):
            return alias
    return name


def _written_default(function: Callable[..., Any], name: str, adapter: TypeAdapter[Any], default: Any) -> Any:
    try:
        (written,) = json.loads(adapter.dump_json({name: default}, by_alias=True, warnings=False)).values()
    except (PydanticSerializationError, *UNREADABLE) as error:
        kind = type(default).__qualname__
        reason = f"the default of parameter {name!r}, a {kind}, cannot be written as JSON; use None instead"
        raise refused(function, reason) from error
    return written


def _hidden(
    function: Callable[..., Any], schema: JsonObject, keys: Mapping[str, str], declared: tuple[str, ...]
) -> tuple[str, ...]:
    """The parameters that hold secrets: declared, named so, or with `format: password` somewhere in them."""
    properties: JsonObject = schema["properties"]
    named = {keys.get(name, name) for name in declared}
    if unknown := sorted(named - properties.keys()):
        raise refused(
            function,
            f"secrets names {', '.join(map(repr, unknown))}, but its parameters are {', '.join(properties) or 'none'}",
        )
    hidden = []
    for key, part in properties.items():
        if key in named or is_secret_parameter(key) or holds_secret(part, schema):
            hidden.append(key)
            if part.get("type") == "string":
                part.setdefault("format", "password")
    return tuple(hidden)
