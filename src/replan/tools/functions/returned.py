"""What a function says that it returns: the schema of that, and whether it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from replan.core.data.canonical import UNORDERED
from replan.core.data.schemas import problems
from replan.core.failures.faults import text_of
from replan.core.types import JsonObject
from replan.errors import ToolCallError
from replan.tools.functions.annotations import adapted, writes_its_own_form
from replan.tools.functions.output import as_far_as_json, known, to_plain
from replan.tools.schema_check import problem_of

UNREADABLE = (
    PydanticUserError,
    PydanticUndefinedAnnotation,
    TypeError,
    NameError,
    AttributeError,
    ValueError,
)
"""What pydantic raises for an annotation that it cannot make a schema of."""

_OPEN: tuple[JsonObject, ...] = (
    {},
    {"type": "string"},
    {"type": "string", "format": "binary"},
    {"type": "object"},
    {"type": "object", "additionalProperties": True},
)


class PlainSchema(GenerateJsonSchema):
    """JSON Schema without the titles that only repeat a field's name."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def set_schema(self, schema: Any) -> Any:
        return {**super().set_schema(schema), UNORDERED: True}

    def frozenset_schema(self, schema: Any) -> Any:
        return {**super().frozenset_schema(schema), UNORDERED: True}


class _Written(PlainSchema):
    """What a class writes are its fields and nothing else: so an output of it is no open object."""

    def model_schema(self, schema: Any) -> Any:
        return self._closed(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: Any) -> Any:
        return self._closed(super().dataclass_schema(schema), schema["cls"])

    def _closed(self, made: Any, cls: type) -> Any:
        config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
        if "properties" in made and config.get("extra") != "allow":
            made.setdefault("additionalProperties", False)
        return made


class Returned:
    """The result of a function: `schema` (None where it would say nothing), and its values, written and checked."""

    __slots__ = (
        "_adapter",
        "_declared",
        "_had",
        "_named",
        "_schemas",
        "_stands_for",
        "_write",
        "schema",
        "taken_whole",
    )

    def __init__(
        self,
        annotation: Any,
        declared: JsonObject | None,
        named: str,
        *,
        closed: bool = True,
        stands_for: Returned | None = None,
        had: bool = False,
    ) -> None:
        """`declared`: a schema that the author gave, before which the annotation says nothing. `named`: the tool.

        `stands_for`: of the tool whose results these are, where the function tells what another has given. `had`: by the time
        that it returns, it has had an effect: what of its result JSON cannot hold is told in words, and takes that back no more.
        """
        self._named = named
        self._had = had
        self._stands_for = stands_for
        self._adapter = None if annotation is None or annotation is type(None) else _adapter_of(annotation)
        self._write = _own_writer(annotation, self._adapter)
        written = _schema_of(self._adapter, "serialization", _Written if closed else PlainSchema)
        self._declared = declared is not None
        self.taken_whole: frozenset[type] = frozenset()
        """Types whose every value is what the annotation says, and is its own JSON: nothing is left to check."""
        if declared is None and stands_for is None and (annotation is int or annotation is bool):
            self.taken_whole = frozenset({annotation})
        self._schemas: tuple[JsonObject, ...]
        """The value has to fit one of them: a dict in a model's place need not have what the model fills in."""
        if declared is not None:
            self.schema: JsonObject | None = declared
            self._schemas = () if problem_of(declared, of_parameters=False) else (declared,)
            return
        self.schema = written if written is not None and _says_something(written) else None
        given = _schema_of(self._adapter, "validation")
        self._schemas = tuple(
            each
            for each in (written, given)
            if each is not None and not problem_of(each, of_parameters=False)
        )

    def plain(self, value: Any) -> Any:
        """The value as plain JSON; `ToolCallError` of kind "output" where it is not what the function says."""
        try:
            plain = to_plain(value, self._write)
        except ToolCallError as error:
            if self._had:
                return as_far_as_json(value, str(error))
            raise
        except Exception as error:  # whatever the author's own code raises: the function has run
            if self._had:
                return as_far_as_json(value, text_of(error))
            raise ToolCallError(
                f"{self._named!r} ran, but what it returned cannot be written as JSON: {text_of(error)}",
                kind="output",
                happened="unknown",
            ) from error
        says = "its output schema" if self._declared else "its return annotation"
        if wrong := self._problems(value, plain):
            text = (
                f"{self._named!r} ran, but what it returned is not what {says} says: {'; '.join(wrong[:5])}"
            )
            raise ToolCallError(text, kind="output", happened="unknown")
        of = self._stands_for
        if of is None or plain is None or isinstance(plain, bool):
            return plain
        if wrong := of._problems(value, plain):
            text = (
                f"what {self._named!r} returned is nothing that {of._named!r} gives: {'; '.join(wrong[:5])}; None says "
                "that the call did not happen, True that it did, anything else is its output"
            )
            raise ToolCallError(text, kind="output", happened="unknown")
        return plain

    def _problems(self, value: Any, plain: Any) -> list[str]:
        wrong: list[str] = []
        for schema in self._schemas:
            found = problems(schema, plain)
            if not found:
                return []
            wrong = wrong or found
        return [] if not self._declared and wrong and self._is_one(value) else wrong

    def _is_one(self, value: Any) -> bool:
        """Whether the value is of the annotated type as Python has it, though it is written otherwise (a Decimal)."""
        try:
            self._adapter.validate_python(value, strict=True)  # type: ignore[union-attr]
        except Exception:  # noqa: BLE001 - a validator of the author's may raise what it likes
            return False
        return True


def output_schema(annotation: Any) -> JsonObject | None:
    """The JSON Schema of what is produced for a return annotation; None where that would say nothing."""
    return Returned(annotation, None, "", closed=False).schema


def _adapter_of(annotation: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(adapted(annotation))
    except UNREADABLE:
        return None


def _schema_of(
    adapter: TypeAdapter[Any] | None, mode: Any, generator: type[PlainSchema] = PlainSchema
) -> JsonObject | None:
    if adapter is None:
        return None
    try:
        return adapter.json_schema(mode=mode, schema_generator=generator)
    except UNREADABLE:
        return None


def _own_writer(annotation: Any, adapter: TypeAdapter[Any] | None) -> Callable[[Any], bytes] | None:
    """How to write values whose annotation decides their form; None where the value itself does."""
    if adapter is None or not writes_its_own_form(annotation):
        return None
    serializer = adapter.serializer
    return lambda value: serializer.to_json(value, by_alias=True, warnings=False, fallback=known)


def _says_something(schema: JsonObject) -> bool:
    choices = schema.get("anyOf")
    if choices:
        return any(_says_something(choice) and choice.get("type") != "null" for choice in choices)
    if schema == {"type": "null"}:
        return False
    rest = {key: value for key, value in schema.items() if key not in ("title", "description", "default")}
    # Text may hold JSON that a reference reads into, and an open object may hold anything.
    return rest not in _OPEN
