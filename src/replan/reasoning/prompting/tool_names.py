"""Tools by whatever a model may call them, and the ones that come nearest."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from replan.core.types import ToolSpec

_NEAREST = 5


class ToolNames:
    """Tools by whatever they may be called: id, alias, name; case, `-` and spaces do not matter."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = tools
        self._by_name: dict[str, ToolSpec | None] = {}
        for tool in tools:
            self._by_name[_fold(tool.id)] = tool
        for tool in tools:
            for name in {_fold(name) for name in (*tool.aliases, tool.name) if name}:
                known = self._by_name.get(name, tool)
                # a name that two tools share means neither, unless it is the id of one
                shared = known is not tool and (known is None or _fold(known.id) != name)
                self._by_name[name] = None if shared else known

    def find(self, name: str) -> ToolSpec | None:
        return self._by_name.get(_fold(name))

    def nearest_to(self, description: str, named: Iterable[str]) -> list[str]:
        """Ids by likeness to the names that were given, then by words shared with the task."""
        ids = [tool.id for tool in self._tools]
        like: dict[str, None] = {}
        for asked in named:
            like.update(dict.fromkeys(difflib.get_close_matches(asked, ids, n=3, cutoff=0.5)))
        words = _words(description)
        ranked = sorted(
            self._tools, key=lambda tool: -len(words & _words(f"{tool.id} {tool.name} {tool.description}"))
        )
        like.update(dict.fromkeys(tool.id for tool in ranked[:_NEAREST]))
        return list(like)[:_NEAREST]


def _fold(name: str) -> str:
    return re.sub(r"[\s\-]+", "_", name.strip().casefold())


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold().replace("_", " ")) if len(word) > 2}
