"""Which of a call's parameters tell its effect from another one of the same tool.

A tool may say so (`unique_by`); else it is all of them but those that say on whose behalf it is called: secrets, sessions, headers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from replan.core.data.canonical import one_form
from replan.core.ids import call_content
from replan.core.memo import ByIdentity
from replan.core.pointers import referred
from replan.core.secrets.names import is_headers, is_on_behalf
from replan.core.secrets.receivers import credentials_of
from replan.core.types import JsonObject, ToolSpec

_DEEP = 20
"""Levels of a parameter that are looked through."""
_IN_QUERY = re.compile(r"(?<=[?&])([^=&#\s?]{1,80})=[^&#\s]*&?")
_QUERY = re.compile(r"[?&][^=&#\s?]{1,80}=")


class Telling(NamedTuple):
    """What tells the calls of one tool apart."""

    tool: ToolSpec
    silent: frozenset[str]
    """Parameters that do not, at the top."""

    @classmethod
    def of(cls, tool: ToolSpec) -> Telling:
        if tool.unique_by:
            told = {path.partition(".")[0] for path in tool.unique_by}
            return cls(tool, frozenset(_properties(tool)) - told)
        return cls(tool, on_behalf_of(tool))

    def parts(self, parameters: JsonObject) -> JsonObject:
        """Those parameters that do, in their one form, without what in them does not; the same object if that is all.

        Where none of those is given by which a tool tells its effects apart, all parameters do.
        """
        parameters = one_form(self.tool.parameters, parameters)
        if self.tool.unique_by:
            told = {path: _at(path, parameters, self.tool) for path in self.tool.unique_by}
            return told if any(value is not None for value in told.values()) else parameters
        return _without(self.silent, parameters)


def what_is_done(tool: ToolSpec | None, parameters: JsonObject) -> JsonObject:
    """The parameters without what says on whose behalf the tool is called: nothing that it has done is known by a session. The same object
    if that is all."""
    return _without(on_behalf_of(tool), parameters) if tool is not None else parameters


def on_behalf_of(tool: ToolSpec) -> frozenset[str]:
    """The parameters that say on whose behalf it is called; where there is no other, they tell its calls apart."""
    return _on_behalf(tool)


def _credentials_beside(tool: ToolSpec) -> frozenset[str]:
    found = credentials_of(tool)
    return found if len(found) < len(_properties(tool)) else frozenset()


_on_behalf = ByIdentity[frozenset[str]](_credentials_beside)


def _without(names: frozenset[str], parameters: JsonObject) -> JsonObject:
    found = {name: without_credentials(value) for name, value in parameters.items() if name not in names}
    same = len(found) == len(parameters) and all(parameters[name] is value for name, value in found.items())
    return parameters if same else found


def unique_text(tool: ToolSpec, parameters: JsonObject) -> str:
    """What tells the effect from others, as one text."""
    return call_content(tool.id, Telling.of(tool).parts(parameters))


def unique_words(tool: ToolSpec) -> str:
    """What its effects are known by, in words."""
    names = [repr(path) for path in tool.unique_by]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def one_effect(tool: ToolSpec) -> str:
    """What it says of two calls with the same of that, in words."""
    return f"calls of {tool.id!r} with the same {unique_words(tool)} are one effect, whatever else they say"


def unique_problem(tool: ToolSpec) -> str:
    """What is wrong with what it says; empty if nothing is."""
    for path in tool.unique_by:
        name, *fields = path.split(".")
        schema = _properties(tool).get(name)
        if schema is None:
            known = ", ".join(sorted(_properties(tool))) or "it takes none"
            return f"unique_by: it has no parameter {name!r} ({known})"
        if name in tool.secrets:
            return f"unique_by: {name!r} is a secret, which is masked in the log and cannot tell two effects apart"
        if not all(fields) or not _may_have(schema, fields, tool.parameters):
            return f"unique_by: {path!r} is no parameter and no field of one (`body.title`)"
    return ""


def _may_have(schema: Any, fields: Sequence[str], root: JsonObject, depth: int = 0) -> bool:
    """True if a value of this schema may have the field at this path."""
    if not fields or not isinstance(schema, dict) or depth > _DEEP:
        return True
    if isinstance(reference := schema.get("$ref"), str):
        return _may_have(referred(root, reference), fields, root, depth + 1)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return any(_may_have(one, fields, root, depth + 1) for one in schema[word])
    kinds = schema.get("type", "object")
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        return False
    names, others = schema.get("properties"), schema.get("additionalProperties")
    if not isinstance(names, dict) or fields[0] in names:
        return _may_have((names or {}).get(fields[0]), fields[1:], root, depth + 1)
    return not names or others is True or isinstance(others, dict) or "allOf" in schema


def without_credentials(value: Any, depth: int = 0) -> Any:
    """The value without the fields, and the parts of an address's query, that are named as secrets, sessions and headers are; the very
    object if it has none."""
    if isinstance(value, str):
        return _IN_QUERY.sub(_unless_credential, value) if _QUERY.search(value) else value
    if not isinstance(value, dict | list) or depth > _DEEP:
        return value
    if isinstance(value, list):
        items = [without_credentials(one, depth + 1) for one in value]
        return value if all(one is other for one, other in zip(items, value, strict=True)) else items
    fields = {
        name: without_credentials(one, depth + 1) for name, one in value.items() if not _is_credential(name)
    }
    same = len(fields) == len(value) and all(value[name] is one for name, one in fields.items())
    return value if same else fields


def _is_credential(name: Any) -> bool:
    return isinstance(name, str) and (is_on_behalf(name) or is_headers(name))


def _unless_credential(found: re.Match[str]) -> str:
    return "" if is_on_behalf(found[1]) else found[0]


def _at(path: str, parameters: JsonObject, tool: ToolSpec) -> Any:
    name, *fields = path.split(".")
    value = parameters[name] if name in parameters else _default(name, tool)
    for at, one in enumerate(fields):
        if not isinstance(value, dict):  # a reference, or no object: all of it tells
            return [value, *fields[at:]] if value is not None else None
        value = value.get(one)
    return value


def _default(name: str, tool: ToolSpec) -> Any:
    schema = _properties(tool).get(name)
    return schema.get("default") if isinstance(schema, dict) else None


def _properties(tool: ToolSpec) -> JsonObject:
    found = tool.parameters.get("properties")
    return found if isinstance(found, dict) else {}
