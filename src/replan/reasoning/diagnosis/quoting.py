"""Evidence has to be a quotation: what was made up is found in no reading."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from replan.core.data.read_json import Unreadable, read_json
from replan.core.reflection import SuggestedAction
from replan.reasoning.prompting.recovery_view import ReadingView

_QUOTED = re.compile(r"\"([^\"]{3,})\"|'([^']{3,})'|`([^`]{3,})`")


def unquoted(action: SuggestedAction, readings: Sequence[ReadingView]) -> Iterator[str]:
    """What is wrong with the evidence of a settlement; nothing for any other action."""
    if action.type != "settle_outcome":
        return
    known = [
        (_squeezed(reading.output), _squeezed(_json(reading.parameters)))
        for reading in readings
        if reading.output
    ]
    evidence = str(action.data.get("evidence") or "")
    if not known:
        yield "nothing has been read yet that could show it: verify_outcome first, or trigger_overall_reflection"
    elif not any(_stands_in(evidence, output, asked) for output, asked in known):
        yield "the evidence stands in no reading: quote literally the part of a reading that decides it"


def _stands_in(evidence: str, reading: str, asked: str) -> bool:
    """The whole evidence; every field of it, if it is JSON; or all that it puts between quotation marks.

    Of several parts some may repeat what was asked, as long as one stands in what came.
    """
    if (whole := _squeezed(evidence)) and whole in reading:
        return True
    try:
        parts = [_squeezed(part) for part in _fields(read_json(evidence))]
    except Unreadable:
        parts = [_squeezed(next(filter(None, groups))) for groups in _QUOTED.findall(evidence)]
    return any(part in reading for part in parts) and all(part in reading or part in asked for part in parts)


def _fields(value: Any) -> Iterator[str]:
    """`"name": value` for every field that holds no other."""
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, dict | list) and item:
                yield from _fields(item)
            else:
                yield f"{_json(name)}:{_json(item)}"
    elif isinstance(value, list):
        for item in value:
            yield from _fields(item)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _squeezed(text: str) -> str:
    """Without white space, and without what JSON inside JSON adds."""
    return re.sub(r"[\s\\]+", "", text)
