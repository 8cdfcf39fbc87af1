"""JSON Schema at the boundary: whether a value fits a schema, and in which words it does not.

The only place that knows the validator. Draft 2020-12 unless the schema names another; `format` is held to where that is
asked for (of answers: tools know what they take); `$ref` leads within the document only; what the validator cannot apply is told, never taken for a fit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from replan.core.data.schema.growth import Growth, growth
from replan.core.data.schema.parts import TooDeep, rewritten
from replan.core.data.schema.patterns import readable, unread_told
from replan.core.masked import plain
from replan.core.memo import MOST, ByIdentity
from replan.core.types import JsonObject
from replan.core.words import beginning, in_digits

SHOWN = 10
"""Faults that are worth telling of one value."""
_LARGE = 1000
"""Parts of a value; every fault of a larger one would take too long to find."""
_ITEMS, _FIELDS = 20, 100
"""What is looked at of each list and object of a large value."""
_FEWER = (_ITEMS, 5, 2, 1)
_TELLS = 10_000
"""Faults that the validator may make of one value, each of which takes it some ten microseconds, most of them to be thrown away."""
_DEEP = 200
"""Levels of a value that a schema with references is held against: the validator goes down by recursion."""
_LOOKS = 100_000
"""At one part of a value, which is some milliseconds. A schema that may take more is not applied."""
_PLACES = 256
"""Of one fault, over definitions that lead back to themselves: the validator tells of each of them, whether a fault is found there or not."""
_AS_A_WHOLE = "it does not fit the schema as a whole"
_TOO_MANY = f"its references say of one value over {in_digits(_LOOKS)} times what holds: let definitions name others once"
_SOMEWHERE = "it does not fit the schema, whose references lead back to themselves in several ways: where is told of {} levels at most"
_SHOWN_OF, _DEPTH_SHOWN = 200, 20
"""Characters of a value in a message, and levels."""
_OF_ANY_PART = frozenset(
    {
        "type", "additionalProperties", "propertyNames", "maxItems", "maxProperties", "uniqueItems", "falseSchema",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "minLength", "maxLength", "format",
    }
)  # fmt: skip
"""What a shortened value breaks only where the whole one does."""
_OF_THE_WHOLE = frozenset({"minItems", "minProperties", "contains", "minContains", "required"})
"""What may be missing only because the value was shortened."""
_DIGITS = re.compile(r"[+]?[0-9]{1,20}\Z")
_CONDITIONAL = frozenset({"then", "else", "dependentSchemas", "dependencies"})
_NOT_CHECKED = frozenset({"$schema", "contentEncoding", "contentMediaType", "contentSchema"})
_DRAFTS = {"draft-04": "Draft4", "draft-06": "Draft6", "draft-07": "Draft7", "2019-09": "Draft201909"}


class Fault(NamedTuple):
    """One way in which a value does not fit."""

    path: tuple[str | int, ...]
    keyword: str
    """The word of the schema that says so; empty where the schema cannot be applied."""
    expected: Any
    """What the word wants: of `required`, the one name that is missing."""
    instance: Any
    """What stands at the path."""
    said: str = ""

    @property
    def message(self) -> str:
        """In words, without the place."""
        return self.said or _words(self)

    def __str__(self) -> str:
        where, message = place(self.path), beginning(self.message)
        return f"{where}: {message}" if where else message


class _Compiled(NamedTuple):
    validator: Any
    refers: bool
    problem: str
    """Why the schema cannot be applied; empty if it can."""
    told_to: int = _DEEP
    """Levels of a value whose faults can be told one by one: to find them takes longer than to know that there are some."""


def unread_patterns(schema: JsonObject) -> tuple[str, ...]:
    """The patterns of a schema that cannot be read, and so are not enforced."""
    try:
        return _readable(schema)[1]
    except (TooDeep, RecursionError):
        return ()


_readable: ByIdentity[tuple[JsonObject, tuple[str, ...], int]] = ByIdentity(readable)


@lru_cache(maxsize=MOST)
def _compiled(text: str, *, formats: bool = False) -> _Compiled:
    import jsonschema_rs

    refers = '"$ref"' in text or '"$dynamicRef"' in text or '"$recursiveRef"' in text
    try:
        schema = json.loads(text)
        made, _, limit = readable(schema)
        looks, returns = growth(made) if refers and isinstance(made, dict) else (1, 1)
        if looks > _LOOKS:
            return _Compiled(None, refers, _TOO_MANY)
        kind = getattr(jsonschema_rs, f"{_draft(schema)}Validator")
        return _Compiled(
            kind(
                rewritten(made, _applied),
                validate_formats=formats,
                offline=True,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=limit),
            ),
            refers,
            "",
            _DEEP if returns < 2 else max(2, int(math.log(_PLACES, returns))),
        )
    except (TooDeep, RecursionError):
        return _Compiled(None, refers, "it is nested too deep")
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return _Compiled(None, refers, _reason(error))


def _draft(schema: Any) -> str:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    return next(
        (kind for mark, kind in _DRAFTS.items() if isinstance(named, str) and mark in named), "Draft202012"
    )


def _applied(part: JsonObject) -> JsonObject:
    """Without what is of no weight here: contents, and the name of a draft that the validator may not know."""
    return {key: value for key, value in part.items() if key not in _NOT_CHECKED}


_compiled_of: ByIdentity[_Compiled] = ByIdentity(
    lambda schema: _compiled(json.dumps(schema, sort_keys=True, default=str))
)

_compiled_with_formats: ByIdentity[_Compiled] = ByIdentity(
    lambda schema: _compiled(json.dumps(schema, sort_keys=True, default=str), formats=True)
)


_growth_of: ByIdentity[Growth] = ByIdentity(growth)


def quick_check(schema: JsonObject) -> Callable[[Any], bool] | None:
    """What says of values that they fit, where no more has to be looked at; what it does not take, and what it raises at, is for
    `faults`. None: so is everything."""
    validator, refers, problem, _ = _compiled_of(schema)
    return None if refers or problem else validator.is_valid


def faults(schema: JsonObject, value: Any, *, formats: bool = False) -> list[Fault]:
    """In what the value does not fit, by place; of a large value the first that are found. `formats`: a text that has to be a date, an
    address, … has to be one."""
    validator, refers, problem, told_to = (_compiled_with_formats if formats else _compiled_of)(schema)
    if problem:
        return [_unapplied(problem, value)]
    too_deep = Fault((), "", None, value, f"it is nested more than {_DEEP} levels deep")
    if refers and _is_deeper(value, _DEEP):
        return [too_deep]
    try:
        if validator.is_valid(value):
            return []
        if _is_deeper(value, _DEEP):
            return [too_deep]
        if _is_deeper(value, told_to):
            return [Fault((), "", None, value, _SOMEWHERE.format(in_digits(told_to)))]
        found = _where(validator, value, _growth_of(schema).looks)
    except (ValueError, UnicodeError) as error:  # what JSON has not, and texts that are none
        if (real := plain(value)) is not value:
            return faults(schema, real, formats=formats)
        return [Fault((), "", None, value, f"it is no JSON: {_reason(error)}")]
    return sorted(found, key=lambda fault: [_in_order(part) for part in fault.path])


def _in_order(part: str | int) -> tuple[bool, int, str]:
    return (True, 0, part) if isinstance(part, str) else (False, part, "")


def schema_problem(schema: Any, root: str = "") -> str:
    """Why this is no usable JSON Schema; empty if it is. `root`: how places in it begin."""
    import jsonschema_rs

    if not isinstance(schema, dict):
        return f"a JSON Schema is an object, not {type(schema).__name__}"
    try:
        given = rewritten(
            schema, lambda part: {key: value for key, value in part.items() if key != "$schema"}
        )
        meta = getattr(jsonschema_rs, f"{_draft(schema)}Validator")
        _of_metaschema(meta).validate(given)
    except jsonschema_rs.ValidationError as error:
        found = _found_in(error, given)
        where = "/".join([root, *map(str, found.path)])
        return f"no valid JSON Schema at {where or '/'}: {found.message[:300]}"
    except (TooDeep, RecursionError):
        return "a JSON Schema that is nested too deep"
    except (ValueError, UnicodeError) as error:
        return f"no JSON: {_reason(error)}"
    return ""


def unheld(schema: JsonObject) -> str:
    """Why code cannot hold a value to a schema that is a valid one; empty if it can.

    A reference that leads nowhere in it, and a pattern that cannot be matched, which would be passed over.
    """
    if problem := _compiled_of(schema).problem:
        return f"the schema cannot be applied ({problem})"
    return unread_told(unread_patterns(schema))


@lru_cache(maxsize=8)
def _of_metaschema(kind: Any) -> Any:
    """The validator of schemas of a draft. Their patterns are read by `core.data.schema.patterns`, not here."""
    named = next((mark for mark, name in _DRAFTS.items() if kind.__name__ == f"{name}Validator"), "")
    uri = {
        "": "https://json-schema.org/draft/2020-12/schema",
        "2019-09": "https://json-schema.org/draft/2019-09/schema",
    }.get(named, f"http://json-schema.org/{named}/schema#")
    return kind({"$ref": uri}, validate_formats=False, offline=True)


def place(path: Sequence[Any]) -> str:
    """A path as `a.b[0]`."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else (f".{part}" if out else str(part))
    return out


def _unapplied(reason: str, value: Any) -> Fault:
    return Fault((), "", None, value, f"the schema cannot be applied ({reason})")


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300] or type(error).__name__


def _where(validator: Any, value: Any, looks: int) -> list[Fault]:
    """Of a value that does not fit. `looks`: of the validator at each part of it, at most."""
    try:
        if _is_large(value, min(_LARGE, _TELLS // looks)):
            return _found_in_large(validator, value, looks)
        return _found(validator, value)
    except Exception:  # noqa: BLE001 - that it does not fit is known: no fault in finding words for it may say something else
        return [Fault((), "", None, value, _AS_A_WHOLE)]


def _found(validator: Any, value: Any) -> list[Fault]:
    return [_found_in(error, value) for error in validator.iter_errors(value)]


def _found_in_large(validator: Any, value: Any, looks: int) -> list[Fault]:
    """The validator makes every fault at once, so it gets the beginning of each list and object only.

    Of what it says then counts what holds of the whole value as well. `looks`: at each part of the value, at most.
    """
    told, perhaps, items = [], "", 0
    for items in _FEWER:
        short = _short(value, items)
        if not _is_large(short, _TELLS * 10 // looks):
            break
    else:
        return [Fault((), "", None, value, _AS_A_WHOLE)]
    for error in validator.iter_errors(short):
        if _holds_of_all(error, short, value):
            told.append(_found_in(error, value))
        elif not perhaps and error.kind.name not in _OF_THE_WHOLE:
            perhaps = f"; perhaps {_found_in(error, value)}"
    if told:
        return told
    said = (
        f"it does not fit the schema as a whole, or past the first {items} items of one of its lists{perhaps}"
    )
    return [Fault((), "", None, value, said)]


def _holds_of_all(error: Any, short: Any, value: Any) -> bool:
    if not _CONDITIONAL.isdisjoint(error.schema_path):  # what the condition saw was shortened
        return False
    if error.kind.name in _OF_ANY_PART and error.schema_path[-1:] != ["contains"]:
        return True
    path = _path_in(short, error.instance_path)
    return path == _path_in(value, error.instance_path) and bool(_at(short, path) == _at(value, path))


def _found_in(error: Any, value: Any) -> Fault:
    path = _path_in(value, error.instance_path)
    return _fault(error, path, _at(value, path))


def _path_in(value: Any, given: Sequence[str | int]) -> tuple[str | int, ...]:
    """The place as it is in the value. The validator gives a name of digits as a number, `01` as 1, and an empty name not at all: where
    nobody can tell which is meant, the place is told as far as it is known."""
    path: list[str | int] = []
    for part in given:
        if isinstance(value, dict) and isinstance(part, int):
            named = [name for name in value if _DIGITS.match(name) and int(name) == part]
            if len(named) != 1:
                break
            part = named[0]
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            break
        path.append(part)
    return tuple(path)


def _fault(error: Any, path: tuple[str | int, ...], instance: Any) -> Fault:
    keyword = error.kind.name
    expected: Any = next(iter(error.kind.as_dict().values()), None)
    if keyword == "contains" or (
        keyword == "falseSchema" and error.schema_path[-1:] == ["additionalProperties"]
    ):
        keyword = error.schema_path[-1]
    if keyword == "additionalProperties" and expected is None:  # nothing is allowed beside what is described
        expected = list(instance)
    said = "" if keyword in _SAID else error.message
    if keyword == "propertyNames":  # its path leads to the object, not into the name
        said = _fault(expected, (), expected.instance).message
    return Fault(path, keyword, expected, instance, said)


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        value = value[part]
    return value


_SAID = {
    "required": "{expected!r} is a required property",
    "enum": "{shown} is not one of {expected!r}",
    "const": "{expected!r} was expected",
    "minimum": "{shown} is less than the minimum of {expected!r}",
    "maximum": "{shown} is greater than the maximum of {expected!r}",
    "exclusiveMinimum": "{shown} is less than or equal to the minimum of {expected!r}",
    "exclusiveMaximum": "{shown} is greater than or equal to the maximum of {expected!r}",
    "multipleOf": "{shown} is not a multiple of {expected!r}",
    "pattern": "{shown} does not match {expected!r}",
    "format": "{shown} is not in the form {expected!r}",
    "uniqueItems": "{shown} has non-unique elements",
    "not": "{shown} should not be valid under {expected!r}",
    "anyOf": "{shown} is not valid under any of the given schemas",
    "oneOf": "{shown} is not valid under any of the given schemas",
    "type": "",
    "additionalProperties": "",
    "unevaluatedProperties": "",
    "minLength": "{shown} is too short (less than {expected} characters)",
    "maxLength": "{shown} is too long (more than {expected} characters)",
    "minItems": "{shown} is too short (less than {expected} items)",
    "maxItems": "{shown} is too long (more than {expected} items)",
    "minProperties": "{shown} does not have enough properties (less than {expected})",
    "maxProperties": "{shown} has too many properties (more than {expected})",
    "contains": "{shown} does not contain items matching the given schema",
    "minContains": "{shown} does not contain enough items matching the given schema",
    "maxContains": "{shown} contains too many items matching the given schema",
    "falseSchema": "nothing is allowed here, {shown} was given",
}


def _words(fault: Fault) -> str:
    expected = fault.expected
    if fault.keyword == "type":
        return f"{_shown(fault.instance)} is not of type {', '.join(map(repr, expected))}"
    if fault.keyword in ("additionalProperties", "unevaluatedProperties"):
        names = ", ".join(map(repr, expected[:SHOWN])) + (", …" if len(expected) > SHOWN else "")
        kind = "Additional" if fault.keyword == "additionalProperties" else "Unevaluated"
        return f"{kind} properties are not allowed ({names} {'was' if len(expected) == 1 else 'were'} unexpected)"
    if fault.keyword == "oneOf" and not all(expected):
        return f"{_shown(fault.instance)} is valid under more than one of the given schemas"
    if fault.keyword in ("minLength", "minItems", "minProperties") and expected == 1:
        return f"{_shown(fault.instance)} should be non-empty"
    return _SAID[fault.keyword].format(shown=_shown(fault.instance), expected=expected)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]  # as they are written
    if _is_large(value, _LARGE) or _is_deeper(value, _DEPTH_SHOWN):
        return f"a list of {len(value):,} items" if isinstance(value, list) else "an object of many parts"
    return beginning(repr(value[:_SHOWN_OF] if isinstance(value, str) else value), _SHOWN_OF)


def _levels(value: Any) -> Iterator[list[Any]]:
    """What holds something, level by level."""
    level = [value] if isinstance(value, dict | list) else []
    while level:
        yield level
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]


def _is_large(value: Any, most: int) -> bool:
    parts = 0
    for level in _levels(value):
        parts += sum(map(len, level))
        if parts > most:
            return True
    return False


def _is_deeper(value: Any, most: int) -> bool:
    return any(depth > most for depth, _ in enumerate(_levels(value), 1))


def _short(value: Any, items: int) -> Any:
    if isinstance(value, list):
        return [_short(item, items) for item in value[:items]]
    if isinstance(value, dict):
        return {name: _short(value[name], items) for name, _ in zip(value, range(_FIELDS), strict=False)}
    return value
