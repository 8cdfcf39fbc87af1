"""What no prompt may show: values under secret names are masked, and hidden where another text quotes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from replan.core.refs import whole
from replan.core.types import JsonObject, ToolSpec
from replan.reasoning.view import TaskView

MASK = "***"
_SHORT = 4
"""A secret of fewer characters would be found in half of all words."""


class Secrets:
    """The secrets of a task and of what was planned for it.

    `seen`: values (parameters as planned, say) that may hold more of them under secret names.
    """

    def __init__(self, task: TaskView, tools: Iterable[ToolSpec], *seen: Any) -> None:
        self._names = set(task.secrets)
        for tool in tools:
            self._names.update(secret_names(tool))
        found = {text for value in (task.metadata, task.context, *seen) for text in self._under_names(value)}
        self._texts = sorted((text for text in found if len(text) >= _SHORT), key=len, reverse=True)

    def masked(self, value: Any) -> Any:
        """A copy with the mask in place of every secret; a reference to one is no secret."""
        if isinstance(value, dict):
            return {
                key: MASK if key in self._names and not _is_reference(item) else self.masked(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.masked(item) for item in value]
        return value

    def hide(self, text: str) -> str:
        """The text with the mask where it quotes a secret, also as JSON."""
        for secret in self._texts:
            text = text.replace(secret, MASK)
            for ascii_only in (True, False):
                text = text.replace(json.dumps(secret, ensure_ascii=ascii_only)[1:-1], MASK)
        return text

    def hide_in(self, values: dict[str, str]) -> dict[str, str]:
        """Every text of a prompt without secrets."""
        return {name: self.hide(text) for name, text in values.items()}

    def _under_names(self, value: Any, secret: bool = False) -> Iterator[str]:
        if isinstance(value, dict):
            for key, item in value.items():
                yield from self._under_names(item, secret or key in self._names)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from self._under_names(item, secret)
        elif secret and value is not None and not isinstance(value, bool) and not _is_reference(value):
            yield str(value)


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and whole(value) is not None


def secret_names(tool: ToolSpec) -> set[str]:
    """The names under which a tool's secrets stand: those that it declares, and those of passwords."""
    return {*tool.secrets, *_passwords(tool.parameters)}


def _passwords(schema: JsonObject) -> Iterator[str]:
    """Names of properties that the schema calls passwords, at any depth."""
    nodes: list[Any] = [schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes.extend(node)
        elif isinstance(node, dict):
            nodes.extend(node.values())
            properties = node.get("properties")
            for name, child in properties.items() if isinstance(properties, dict) else ():
                if _is_password(child):
                    yield name


def _is_password(schema: Any) -> bool:
    """A password, one that may be null, or a list of them."""
    if not isinstance(schema, dict):
        return False
    inner = [schema.get("items")]
    for word in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(word)
        inner += parts if isinstance(parts, list) else []
    return schema.get("format") == "password" or any(map(_is_password, inner))
