"""Ways to get structured answers, strongest first, and how to tell that an endpoint lacks one."""

from __future__ import annotations

import json
import re
from typing import Literal

from replan.ports import ModelRequest

Mode = Literal["native", "tool", "prompted"]
MODES: tuple[Mode, ...] = ("native", "tool", "prompted")

_WORDS: dict[Mode, re.Pattern[str]] = {
    "native": re.compile(r"response_?format|json.?schema|structured|grammar|schema|guided", re.IGNORECASE),
    "tool": re.compile(r"tool|function|schema|grammar", re.IGNORECASE),
    "prompted": re.compile(r"(?!)"),
}
_ABOUT_THIS_SCHEMA = re.compile(
    r"(invalid|unsupported|failed|error)[^.]{0,60}(schema|grammar)", re.IGNORECASE
)
_SAMPLING = re.compile(r"temperature|top_p", re.IGNORECASE)
_REFUSING = frozenset({400, 404, 415, 422, 501})


def weaker(mode: Mode) -> Mode | None:
    """The next way to try; None if there is none."""
    position = MODES.index(mode) + 1
    return MODES[position] if position < len(MODES) else None


def refuses(mode: Mode, status: int | None, message: str) -> bool:
    """Whether an error answer says that the endpoint does not take this way of asking.

    A status 500 counts too where it names the schema: some servers fail while they compile it.
    """
    if status not in _REFUSING and status != 500:
        return False
    if re.search(r"context|max_?tokens|too long|does not exist|not found", message, re.IGNORECASE):
        return False
    return _WORDS[mode].search(message) is not None


def only_this_schema(message: str) -> bool:
    """Whether the complaint is about the one schema, so that others may still be asked for in this way."""
    return _ABOUT_THIS_SCHEMA.search(message) is not None


def refuses_sampling(status: int | None, message: str) -> bool:
    """Whether the model takes no `temperature` or `top_p`."""
    return status in (400, 422) and _SAMPLING.search(message) is not None


def refuses_streaming(status: int | None, message: str) -> bool:
    """Whether the endpoint does not stream."""
    return status in _REFUSING and re.search(r"stream", message, re.IGNORECASE) is not None


def prompted_instructions(request: ModelRequest) -> str:
    """The instructions with the schema in words, for endpoints that take it in no other way."""
    schema = json.dumps(request.json_schema, ensure_ascii=False, separators=(",", ":"))
    return (
        f"{request.instructions}\n\n"
        f'Answer with one JSON object and nothing else: no code fence, no words around it. It follows the JSON Schema "{request.schema_name}":\n'
        f"{schema}"
    )


def looks_like_json(text: str) -> bool:
    """Whether a text that an endpoint promised to be JSON is JSON, or the beginning of it."""
    return text.lstrip().startswith("{")
