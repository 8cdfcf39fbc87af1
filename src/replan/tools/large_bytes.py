"""Bytes that another process has sent within JSON: kept as files of the task where they are large."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any

from replan.beside import beside
from replan.core.data.pieces import is_large
from replan.core.references.binary import from_data_url
from replan.core.references.kept import replaced
from replan.core.walk import texts_in
from replan.ports import KeptOutput, WithFiles
from replan.tools.bounds import FILE_BYTES

_PIECE = 1 << 20


async def with_files(
    value: Any, keep: Callable[[AsyncIterable[bytes], str], Awaitable[KeptOutput]] | None
) -> Any:
    """The value with files in place of its large `data:` URLs; the same where there is none, or nobody keeps files."""
    if keep is None or isinstance(value, int | float | bool | None):
        return value
    kept: dict[str, KeptOutput] = {}
    for text in await beside(_large, value) if is_large(value) else _large(value):
        if (found := await beside(from_data_url, text)) is not None:
            kept[text] = await keep(_pieces(found[1]), found[0])
    if not kept:
        return value
    return WithFiles(replaced(value, {text: one.name for text, one in kept.items()}), tuple(kept.values()))


def _large(value: Any) -> set[str]:
    """The `data:` URLs in it that are so large."""
    return {one for one in texts_in(value) if len(one) > FILE_BYTES // 3 * 4 and one.startswith("data:")}


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]
