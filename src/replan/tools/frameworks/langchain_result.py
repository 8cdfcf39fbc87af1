"""What a LangChain tool gave, as plain JSON values."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolOutputMixin

from replan.errors import ToolCallError
from replan.tools.functions.output import to_plain


def plain_result(tool_id: str, result: Any, *, artifact: bool) -> Any:
    """The content, or `{"content", "artifact"}` of a tool that gives both.

    A message with status "error" is a `ToolCallError` with its text. A `Command`, which would change the state of a
    graph, is one of kind `output`: there is no graph, and dropping it would lose what the tool meant.
    """
    if isinstance(result, list) and any(isinstance(each, ToolOutputMixin) for each in result):
        return [plain_result(tool_id, each, artifact=artifact) for each in result]
    if isinstance(result, ToolMessage):
        if result.status == "error":
            raise ToolCallError(_text(result.content) or f"the tool {tool_id!r} failed and did not say why")
        if artifact or result.artifact is not None:
            return {"content": to_plain(result.content), "artifact": _artifact(result.artifact)}
        return to_plain(result.content)
    if isinstance(result, ToolOutputMixin):
        raise ToolCallError(
            f"the tool {tool_id!r} ran, but gave a {type(result).__name__}, which changes the state of a LangGraph "
            "graph; there is no graph here: let it return a value",
            kind="output",
            happened="unknown",
        )
    return to_plain(result)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else part.get("text", "") for part in content]
    return "\n".join(part for part in parts if part)


def _artifact(value: Any) -> Any:
    """The artifact, or what it is: it goes beside the content, and is no reason to lose that."""
    try:
        return to_plain(value)
    except ToolCallError:
        return f"<{type(value).__module__}.{type(value).__qualname__}, which has no JSON form>"
