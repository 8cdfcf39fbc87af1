"""JSON that another process has sent, read strictly, and beside the event loop where there is much of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from replan.beside import seen_through
from replan.core.data.pieces import AT_ONCE
from replan.core.json_reader import no_number, read_in_pieces

T = TypeVar("T")


def parsed(data: bytes | str) -> Any:
    """The value; `ValueError` for all that is no JSON, NaN and too deep a nesting included."""
    try:
        if len(data) > AT_ONCE:
            text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
            return read_in_pieces(text, constant=no_number)
        return json.loads(data, parse_constant=no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


async def taken(work: Callable[[], T], size: int) -> T:
    """What `work` makes of an answer of so many bytes. It is known by now what has happened: a cancellation comes after it."""
    return await seen_through(work) if size > AT_ONCE else work()
