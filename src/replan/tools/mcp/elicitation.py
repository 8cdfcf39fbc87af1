"""A server's question to a person (MCP elicitation), put to whoever answers for the call that raised it."""

from __future__ import annotations

from collections.abc import Set

import mcp_types as types

from replan.core.data.schemas import problems
from replan.core.types import JsonObject
from replan.ports import Question
from replan.tools.mcp.exchange import EXCHANGE, Exchange

_TRIES = 3


async def answer(params: types.ElicitRequestParams, running: Set[Exchange]) -> types.ElicitResult:
    """The person's answer; "decline" where nobody can be asked or nobody answers.

    Which call asks: the one on whose stream the question came (HTTP), else the only one that runs.
    """
    exchange = EXCHANGE.get()
    if exchange is None or exchange.call is None:
        exchange = next(iter(running)) if len(running) == 1 else None
    if exchange is None or exchange.over or exchange.call is None or exchange.call.ask is None:
        return types.ElicitResult(action="decline")
    if isinstance(params, types.ElicitRequestURLParams):
        question = Question(f"{params.message}\nOpen {params.url} and say when it is done.", _YES)
        agreed = await exchange.ask(question)
        return types.ElicitResult(action="accept" if agreed and agreed.get("done") is True else "decline")
    schema: JsonObject = {"type": "object", **params.requested_schema}
    message = params.message
    for _ in range(_TRIES):
        given = await exchange.ask(Question(message, schema))
        if given is None:
            return types.ElicitResult(action="decline")
        wrong = problems(schema, given)
        if not wrong:
            try:
                return types.ElicitResult(action="accept", content=given)
            except ValueError:
                wrong = ["a field may be a text, a number, true or false, or a list of texts"]
        message = f"{params.message}\nThe last answer does not fit: {'; '.join(wrong[:5])}"
    return types.ElicitResult(action="cancel")


_YES: JsonObject = {
    "type": "object",
    "properties": {"done": {"type": "boolean", "description": "the page was opened and completed"}},
    "required": ["done"],
}
