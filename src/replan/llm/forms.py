"""Requests and answers in the forms of pydantic-ai, from and to our own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replan.core.data.answers import form_of
from replan.core.data.lead_ins import is_call_of_answer
from replan.core.limits.prices import Price
from replan.core.types import Usage
from replan.llm.ladder import Mode, Way
from replan.ports import ModelRequest

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.models import Model as LibraryModel
    from pydantic_ai.models import ModelRequestParameters


def messages(request: ModelRequest, way: Way) -> list[ModelMessage]:
    from pydantic_ai import messages as m

    instructions = prompted_instructions(request) if way.mode == "prompted" else request.instructions
    head, system = ("", instructions) if way.system else (f"{instructions}\n\n", None)
    return [
        m.ModelRequest.user_text_prompt((head if at == 0 else "") + turn.text, instructions=system)
        if turn.role == "user"
        else m.ModelResponse(parts=[m.TextPart(turn.text)])
        for at, turn in enumerate(request.turns)
    ]


def parameters(request: ModelRequest, mode: Mode) -> ModelRequestParameters:
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


def said_by(event: Any) -> str:
    """The same, or a piece of a thought."""
    from pydantic_ai import messages as m

    match event:
        case (
            m.PartStartEvent(part=m.ThinkingPart(content=text))
            | m.PartDeltaEvent(delta=m.ThinkingPartDelta(content_delta=str() as text))
        ):
            return text
        case _:
            return piece_of(event)


def with_texts(response: ModelResponse, whole: Callable[[str], str]) -> ModelResponse:
    """The response with each of its texts as `whole` gives it, without the marks that the library puts into what looks like a token."""
    from pydantic_ai import messages as m

    def as_said(text: str) -> str:
        found = whole(text)
        return _JOINED.sub(r"\1", found) if found is not text and _JOINER in found else found

    parts: list[Any] = []
    for part in response.parts:
        if isinstance(part, m.TextPart):
            parts.append(replace(part, content=as_said(part.content)))
        elif isinstance(part, m.ToolCallPart) and isinstance(part.args, str):
            parts.append(replace(part, args=as_said(part.args)))
        else:
            parts.append(part)
    return replace(response, parts=parts)


_JOINER = "\u200d"
_JOINED = re.compile(rf"([<\[\]]){_JOINER}")


def withheld(response: ModelResponse) -> str | None:
    """Why there is no answer and no other way of asking brings one: the model refused, or a filter took it away."""
    if response.finish_reason != "content_filter":
        return None
    refusal = (response.provider_details or {}).get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return f"refuses to answer: {refusal.strip()[:500]}"
    return "withholds its answer: a filter of contents has stopped it"


def text_of(response: ModelResponse, fields: Sequence[str] = ()) -> str:
    """All that the model has said, its calls among its words. Some servers put all of an answer among the thoughts."""
    from pydantic_ai import messages as m

    if any(isinstance(part, m.ToolCallPart) for part in response.parts):
        # what is said beside a call, or by another call, may take it back: whoever reads it has to see both
        said = [
            part.content if isinstance(part, m.TextPart) else _call_as_text(part)
            for part in response.parts
            if isinstance(part, m.TextPart | m.ToolCallPart)
        ]
        return "\n".join(text for text in said if text.strip())
    text = "".join(part.content for part in response.parts if isinstance(part, m.TextPart))
    if not text.strip():
        thoughts = thoughts_of(response).strip()
        if thoughts[:1] == "{" and thoughts[-1:] == "}" and form_of(thoughts, fields) == "good":
            return thoughts
    return text


def _call_as_text(call: ToolCallPart) -> str:
    """Its arguments; with its name where that is none of an answer."""
    arguments = call.args if isinstance(call.args, str) else call.args_as_json_str()
    if is_call_of_answer(call.tool_name):
        return arguments
    return json.dumps({"name": call.tool_name, "arguments": arguments}, ensure_ascii=False)


def thoughts_of(response: ModelResponse) -> str:
    """What the model has thought, where the endpoint tells."""
    from pydantic_ai import messages as m

    return "".join(part.content for part in response.parts if isinstance(part, m.ThinkingPart))


def usage_of(response: ModelResponse) -> Usage:
    try:
        cost = float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError, TypeError):
        cost = 0.0  # no price known
    used = response.usage
    return Usage(
        llm_calls=1,
        input_tokens=_count(used.input_tokens),
        output_tokens=_count(used.output_tokens),
        cost_usd=cost,
        cached_tokens=min(_count(used.cache_read_tokens), _count(used.input_tokens)),
    )


def _count(told: object) -> int:
    """Tokens that an endpoint tells of, which may be a fraction; 0 for what is no number of anything."""
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told < math.inf:
        return 0
    return math.ceil(told)


def listed_price(library: LibraryModel) -> Price | None:
    """What the library's price list says of a model; of one whose price depends on the size of requests, of small ones."""
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.usage import RequestUsage

    def of(usage: RequestUsage) -> float:
        told = ModelResponse(
            parts=[],
            usage=usage,
            model_name=library.model_name,
            provider_name=library.system,
            provider_url=library.base_url,
        )
        return float(told.cost().total_price) * 1_000

    try:
        return Price(input=of(RequestUsage(input_tokens=1_000)), output=of(RequestUsage(output_tokens=1_000)))
    except (LookupError, ValueError, AssertionError):
        return None


def prompted_instructions(request: ModelRequest) -> str:
    """The instructions with the schema in words, for endpoints that take it in no other way."""
    schema = json.dumps(request.json_schema, ensure_ascii=False, separators=(",", ":"))
    return (
        f"{request.instructions}\n\n"
        f'Answer with one JSON object and nothing else: no code fence, no words around it. It follows the JSON Schema "{request.schema_name}":\n'
        f"{schema}"
    )
