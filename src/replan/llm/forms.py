"""Requests and answers in the forms of pydantic-ai, from and to our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replan.core.types import Usage
from replan.llm import structured
from replan.ports import ModelRequest

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters


def messages(request: ModelRequest, mode: structured.Mode) -> list[ModelMessage]:
    from pydantic_ai import messages as m

    instructions = structured.prompted_instructions(request) if mode == "prompted" else request.instructions
    return [
        m.ModelRequest.user_text_prompt(turn.text, instructions=instructions)
        if turn.role == "user"
        else m.ModelResponse(parts=[m.TextPart(turn.text)])
        for turn in request.turns
    ]


def parameters(request: ModelRequest, mode: structured.Mode) -> ModelRequestParameters:
    from pydantic_ai import ToolDefinition
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    # Never strict: strict schemas allow no free-form objects, and parameters of tools are just that.
    match mode:
        case "native":
            output = OutputObjectDefinition(
                name=request.schema_name, json_schema=request.json_schema, strict=False
            )
            return ModelRequestParameters(output_mode="native", output_object=output)
        case "tool":
            tool = ToolDefinition(
                name=request.schema_name,
                parameters_json_schema=request.json_schema,
                description="Give the answer.",
                kind="output",
                strict=False,
            )
            return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
        case _:
            return ModelRequestParameters(output_mode="text")


def piece_of(event: Any) -> str:
    from pydantic_ai import messages as m

    match event:
        case (
            m.PartStartEvent(part=m.TextPart(content=text))
            | m.PartDeltaEvent(delta=m.TextPartDelta(content_delta=text))
        ):
            return text
        case m.PartStartEvent(part=m.ToolCallPart(args=str() as text)):
            return text
        case m.PartDeltaEvent(delta=m.ToolCallPartDelta(args_delta=str() as text)):
            return text
        case _:
            return ""


def text_of(response: ModelResponse) -> str:
    """The answer's text; empty for a refusal."""
    from pydantic_ai import messages as m

    if response.finish_reason == "content_filter":
        return ""
    for part in response.parts:
        if isinstance(part, m.ToolCallPart):
            return part.args_as_json_str() if not isinstance(part.args, str) else part.args
    return "".join(part.content for part in response.parts if isinstance(part, m.TextPart))


def usage_of(response: ModelResponse) -> Usage:
    try:
        cost = float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        cost = 0.0  # no price known
    used = response.usage
    return Usage(llm_calls=1, input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost_usd=cost)
