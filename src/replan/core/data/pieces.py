"""Large values, written and read piece by piece.

What writes and reads JSON is one call into C, which nothing interrupts: for a value of 50 MB every thread of the process stands
still for a second. So a large value is taken in pieces that cost some milliseconds each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from replan.core.data.strict_json import NotStorable, check_keys

T = TypeVar("T")

PIECE = 500_000
"""The weight of a piece: characters of texts, and `_EACH` for every value around them."""
AT_ONCE = 65_536
"""Characters of somebody's JSON that are read and understood in the event loop, which is slower than to write and read ours."""
ANSWER_AT_ONCE = 16_384
"""The same of a model's answer, which may be no JSON: what reads it then takes some microseconds for each sign."""
PLAN_AT_ONCE = 2 * AT_ONCE
"""The same of a plan, which is made of short names: a hundred steps, each with ten before it, take some three milliseconds."""
PLAN_BYTES = 24_576
"""The same in bytes of its JSON, where that is at hand."""
MANY = 300
"""Steps, calls or events that are gone through in the event loop."""
_EACH = 64
_MOST_LEVELS = 200
_Path = tuple[str | int, ...]


def weight(value: Any, most: int = PIECE) -> int:
    """Roughly the characters of the value's JSON; more than `most` if it is more. What is no plain value weighs nothing."""
    left = most - _EACH
    if isinstance(value, _TEXTS):
        left -= len(value)
    waiting = [value] if isinstance(value, _AROUND_OTHERS) else []
    while waiting and left >= 0:
        one = waiting.pop()
        if len(one) * _EACH > left:
            return most + 1
        left -= len(one) * _EACH
        try:
            left -= len("".join(one))  # the keys, or a list of texts, at once
        except TypeError:
            texts = [item for item in list(one) if isinstance(item, _TEXTS)]
            left -= sum(map(len, texts))
            if not isinstance(one, dict):
                waiting += [item for item in one if isinstance(item, _AROUND_OTHERS)]
        if isinstance(one, dict):
            for item in list(one.values()):
                kind = type(item)
                if kind is str:
                    left -= len(item)
                elif kind is list or kind is dict:
                    waiting.append(item)
                elif isinstance(item, _TEXTS):
                    left -= len(item)
                elif isinstance(item, _AROUND_OTHERS):
                    waiting.append(item)
    return most - left


_TEXTS, _AROUND_OTHERS = (str, bytes), (dict, list, tuple)


def is_large(value: Any) -> bool:
    """True if the value is more than one piece: whoever goes through all of it does so beside the event loop."""
    return value is not None and not isinstance(value, bool | int | float) and weight(value) > PIECE


One = Callable[[Any, int], tuple[Any, bytes]]
"""A piece as a plain value, and its JSON; told how deep in the whole it stands."""


def in_pieces(
    value: Any,
    one: One,
    path: _Path = (),
    *,
    piece: int = PIECE,
    around: frozenset[int] = frozenset(),
    large: bool = False,
) -> tuple[Any, list[bytes]]:
    """What `one` makes of the value, put together from its pieces; the JSON in parts that follow each other.

    `around`: the identities of the lists and objects that the value stands in. `large`: it is known to be more than a piece.
    """
    if type(value) is str and len(value) > piece:
        made = [one(part, 0) for part in _parts_of_text(value, piece)]
        return "".join([part for part, _ in made]), [b'"', *(data[1:-1] for _, data in made), b'"']
    if not isinstance(value, list | tuple | dict) or not (large or weight(value, piece) > piece):
        plain, data = _tried(one, value, path, 0)
        return plain, [data]
    if id(value) in around:
        raise NotStorable("it contains itself")
    around = around | {id(value)}
    if len(path) > _MOST_LEVELS:  # as pydantic's reader says of what is no deeper than that at once
        raise ValueError("recursion limit exceeded")
    parts: list[bytes] = []
    if isinstance(value, dict):
        fields: dict[Any, Any] = {}
        for _, batch, alone in _batches(list(value.items()), piece):
            if alone:
                [(name, item)] = batch
                plain, written = in_pieces(
                    item, one, (*path, str(name)), piece=piece, around=around, large=True
                )
                named, head = _tried(one, {name: 0}, path, 0)
                fields.update(dict.fromkeys(named, plain))
                parts += [b",", head[1:-2], *written]
            else:
                plain, fields_written = _tried(one, dict(batch), path, 0)
                fields.update(plain)
                parts += [b",", fields_written[1:-1]]
        parts[:1] = [b"{"]
        parts.append(b"}")
        if len(fields) != len(value):
            check_keys(b"".join(parts))
        return fields, parts
    items: list[Any] = []
    for first, batch, alone in _batches(list(value), piece):
        if alone:
            plain, written = in_pieces(batch[0], one, (*path, first), piece=piece, around=around, large=True)
            items.append(plain)
            parts += [b",", *written]
        else:
            plain, items_written = _tried(one, batch, path, first)
            items += plain
            parts += [b",", items_written[1:-1]]
    parts[:1] = [b"["]
    parts.append(b"]")
    return items, parts


def _parts_of_text(text: str, piece: int) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = at + piece
        while "\ud800" <= text[end - 1 : end] < "\udc00":  # the first half of a sign goes with the second
            end += 1
        yield text[at:end]
        at = end


def _tried(one: One, piece: Any, path: _Path, first: int) -> tuple[Any, bytes]:
    try:
        return one(piece, len(path))
    except NotStorable as error:
        raise error.under(path, first) from None


def _batches(items: Iterable[T], piece: int) -> Iterator[tuple[int, list[T], bool]]:
    """The items, as many together as make a piece; one that is more than that comes alone. Each with the first one's place."""
    batch: list[T] = []
    first = left = 0
    for at, item in enumerate(items):
        size = weight(item, piece)
        if batch and size > left:
            yield first, batch, False
            batch = []
        if size > piece:
            yield at, [item], True
            continue
        if not batch:
            first, left = at, piece
        batch.append(item)
        left -= size
    if batch:
        yield first, batch, False


# ── reading ──
