"""What a call gives: the value of a result, or the error that it reports."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from replan.core.data.schemas import problems
from replan.core.failures.faults import classify
from replan.core.ids import canonical
from replan.core.references.binary import data_url
from replan.errors import ToolCallError
from replan.tools.mcp.failures import says_no_such_tool, with_remedy
from replan.tools.mcp.listing import UNFINISHED, Listed

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_PARAMETER = re.compile(
    r"(input validation error\b|mcp error -32602\b|error executing tool [\w./-]+: \d+ validation errors? for )",
    re.IGNORECASE,
)


def value_of(result: CallToolResult, tool: Listed) -> Any:
    """The structured value if there is one, checked against the declared schema; else what the content parts hold.

    One part gives its value, several a list, none null. Text stays text, also where it is JSON. Parts that come with a
    structured value, and do not only repeat it, stand beside it as its `content`.
    """
    if result.is_error:
        raise reported(_text(result), tool)
    if result.meta and (kind := result.meta.get(UNFINISHED)):
        raise _unfinished(tool, str(kind))
    structured = result.structured_content
    if structured is not None or "structured_content" in result.model_fields_set:
        if tool.output is not None and (wrong := problems(tool.output, structured)):
            raise _lied(tool, "; ".join(wrong[:5]))
        value = structured["result"] if tool.wrapped else structured
        return _beside(value, _not_said_by(structured, value, result.content))
    if tool.output is not None:
        return _from_text(result, tool)
    parts = [part_of(block) for block in result.content]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else parts


def _from_text(result: CallToolResult, tool: Listed) -> Any:
    """Structured output that came as text only, which the protocol asks for besides, where it fits the schema."""
    texts = [block for block in result.content if block.type == "text"]
    if len(texts) == 1 and tool.output is not None:
        try:
            found = json.loads(texts[0].text)
        except ValueError:
            found = texts[0].text
        if not problems(tool.output, found):
            rest = [part_of(block) for block in result.content if block.type != "text"]
            return _beside(found["result"] if tool.wrapped else found, rest)
    raise _lied(tool, "it declares structured output and gave none")


def _not_said_by(structured: Any, value: Any, blocks: Sequence[ContentBlock]) -> list[Any]:
    """The parts that say more than the structured value, of which the protocol wants the JSON as text besides."""
    texts = [block.text for block in blocks if block.type == "text"]
    if texts == value or _same([_parsed(text) for text in texts], value):
        said: Sequence[Any] = texts  # a text for each item, as FastMCP writes lists
    else:
        said = [
            text
            for text in texts
            if not text.strip()
            or text == value
            or any(_same(_parsed(text), one) for one in (structured, value))
        ]
    return [part_of(block) for block in blocks if block.type != "text" or block.text not in said]


def _beside(value: Any, rest: list[Any]) -> Any:
    if not rest:
        return value
    held = value if isinstance(value, dict) else {"result": value}
    name = "content"
    while name in held:
        name = f"_{name}"
    return {**held, name: rest}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: unlike in Python, 0 is not false."""
    return bool(one == other) and canonical(one) == canonical(other)


def reported(text: str, tool: Listed) -> ToolCallError:
    """The error that a tool reports (`isError`). What it says of the outcome is for `core.failures.faults` to tell.

    Its words say whose fault it is where it is clear that nothing has happened; they never make that clear.
    """
    said = with_remedy(text) or "the tool reported an error without a word"
    error = ToolCallError(said)
    if classify(error, tool.spec).happened != "no":
        return error
    if says_no_such_tool(text, tool.spec.id):
        return ToolCallError(said, kind="unknown_tool", happened="no")
    if _PARAMETER.match(text):
        return ToolCallError(said, kind="parameter", happened="no")
    return error


def part_of(block: ContentBlock) -> Any:
    """One part of the content as a JSON value: text as itself, bytes as a `data:` URL in an object."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return {
                "type": block.type,
                "mimeType": block.mime_type,
                "data": _url(block.data, block.mime_type),
            }
        case "resource":
            held = block.resource
            said: dict[str, Any] = {"type": "resource", "uri": str(held.uri)}
            if held.mime_type is not None:
                said["mimeType"] = held.mime_type
            blob = getattr(held, "blob", None)
            if blob is not None:
                return {**said, "data": _url(blob, held.mime_type or "application/octet-stream")}
            return {**said, "text": getattr(held, "text", "")}
        case _:
            return block.model_dump(mode="json", by_alias=True, exclude_none=True)


def _url(data: str, media_type: str) -> str:
    try:
        return data_url(base64.b64decode(data, validate=True), media_type)
    except (binascii.Error, ValueError):
        raise ToolCallError(
            f"the answer holds bytes of type {media_type} that are not base64",
            kind="output",
            happened="unknown",
        ) from None


def _text(result: CallToolResult) -> str:
    texts = [block.text for block in result.content if block.type == "text"]
    if not texts and result.structured_content is not None:
        return str(result.structured_content)[:2000]
    return "\n".join(texts).strip()


def _unfinished(tool: Listed, kind: str) -> ToolCallError:
    return ToolCallError(
        f"the answer of {tool.spec.id!r} says of itself that it is no whole one (resultType {kind[:40]!r})",
        kind="output",
        happened="unknown",
    )


def _lied(tool: Listed, wrong: str) -> ToolCallError:
    return ToolCallError(
        f"the answer of {tool.spec.id!r} is not what its output schema says: {wrong}",
        kind="output",
        happened="unknown",
    )
