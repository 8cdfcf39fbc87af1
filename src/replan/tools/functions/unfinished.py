"""What a function has given that is no result yet: files to be stored, what the loop has to finish, what is yielded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Any

from replan.errors import ToolCallError
from replan.ports import Progress
from replan.tools.functions.context import ToolContext
from replan.tools.functions.files import File

_MOST_ITEMS = 1_000_000


class FilesLeft:
    """What a function gave back in which files are still to be stored."""

    __slots__ = ("files", "value")

    def __init__(self, value: Any, files: Sequence[File]) -> None:
        self.value = value
        self.files = files


class Unfinished:
    """What a function gave back that the event loop has to finish."""

    __slots__ = ("value",)

    def __init__(self, value: AsyncGenerator[Any, None] | Awaitable[Any]) -> None:
        self.value: Any = value


class Yielded:
    """What a generator has yielded so far; `listed` as in `Yields`."""

    def __init__(self, context: ToolContext, *, listed: bool | None) -> None:
        self._context = context
        self._listed = listed
        self._reported = False
        self._items: list[Any] = []

    def take(self, item: Any) -> None:
        """Keep the item, or show it as progress; a text, or `(done, total)`, of what may be progress is both."""
        if isinstance(item, Progress):
            self._context.pass_on(item)
            self._reported = True
            return
        if len(self._items) >= _MOST_ITEMS:
            text = f"the tool yielded more than {_MOST_ITEMS:,} things; let it return a summary, or write them to a file"
            raise ToolCallError(text, kind="output", happened="unknown")
        self._items.append(item)
        if self._listed:
            return
        if isinstance(item, str):
            self._context.report(item)
        elif type(item) is tuple and len(item) == 2 and all(type(part) in (int, float) for part in item):
            self._context.report("", float(item[0]), float(item[1]))

    def result(self) -> Any:
        is_list = not self._reported if self._listed is None else self._listed
        if is_list or len(self._items) > 1:
            return self._items
        return self._items[0] if self._items else None
