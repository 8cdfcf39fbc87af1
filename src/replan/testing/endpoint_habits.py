"""What goes wrong with a scripted endpoint, and how it departs from the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from replan.core.types import JsonObject


@dataclass(frozen=True)
class EndpointFault:
    """What goes wrong with one request instead of an answer.

    `status`: an error answer, with `retry_after` (the header's text), `message` and `code`. `inside_200`: the same
    error, its status inside an answer of status 200; `in_stream`: after half of a stream. `cut`: the connection breaks after
    half of the answer.
    `ends_early`: a stream stops half-way as if it were finished. `hang`: no answer until the endpoint is closed.
    `garbage`: a page that is no JSON. `drop`: closed without an answer.
    """

    kind: Literal["status", "inside_200", "in_stream", "cut", "ends_early", "hang", "garbage", "drop"] = (
        "status"
    )
    status: int = 503
    retry_after: str | None = None
    message: str = "the scripted endpoint was told to fail"
    code: str = "error"


Odd = Literal[
    "right",
    "thoughts",
    "nothing",
    "empty_object",
    "no_choices",
    "null_choices",
    "refused",
    "filtered",
    "short",
    "blank",
    "gibberish",
    "schema_back",
]
"""Where an answer is: in its place; among the thoughts (`reasoning_content`); nowhere; `{}` instead; `choices` without
one, or null; a refusal instead; taken away by a filter of contents; half of it,
because of a limit of tokens; its beginning and then white space up to the limit; signs without sense; a schema."""


@dataclass(frozen=True)
class Habits:
    """How an endpoint departs from the protocol, in every answer.

    `schema`, `tool`, `words`: what comes back when it is asked with a JSON schema, a tool, or in words.
    `stream`: `noisy` puts ids, comments and empty data between the events; `unfinished` gives no reason for its end;
    `broken` sends what cannot be read; `cumulative` the whole text so far, each time; `two_choices` another answer besides; `endless` says its answer over and over. `content_type` of whole answers. `arguments`: those of a call are sent as text, or as an object. `usage`: it says what was used, or this. `system_role`: it takes a message of the system;
    `max_tokens`: a limit of tokens.
    `bare_refusals`: it does not say what it refuses.
    """

    schema: Odd = "right"
    tool: Odd = "right"
    words: Odd = "right"
    stream: Literal["right", "noisy", "unfinished", "broken", "cumulative", "two_choices", "endless"] = (
        "right"
    )
    content_type: str = "application/json"
    arguments: Literal["text", "object"] = "text"
    usage: Any = True
    system_role: bool = True
    max_tokens: bool = True
    bare_refusals: bool = False

    def answer_to(self, body: JsonObject) -> Odd:
        """What comes back for this request."""
        if "response_format" in body:
            return self.schema
        return self.tool if body.get("tools") else self.words


AS_THE_PROTOCOL_SAYS = Habits()
