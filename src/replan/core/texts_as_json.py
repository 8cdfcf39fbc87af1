"""JSON that stands in a text: whoever plans may write parameters, steps or a list so."""

from __future__ import annotations

import json
from typing import Any

from replan.core.json_reader import no_number


class _Twice(ValueError):
    """A key of an object is given twice, with different values."""


def read_text(text: str) -> Any:
    """What the text says as JSON; None where it is none, or where a key of it is given twice with different values: neither is what is meant."""
    try:
        return json.loads(text, object_pairs_hook=_each_key_once, parse_constant=no_number)
    except (ValueError, RecursionError):
        return None


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        for key, value in pairs:
            if json.dumps(found[key], sort_keys=True) != json.dumps(value, sort_keys=True):
                raise _Twice(key)
    return found
