"""What an answer has used: as the endpoint says it where that can be, else about what its texts are.

The limits of a task hang on it, so no number is believed that the texts rule out: neither one that says nothing was used, nor one
that would use up a task by a single answer. It is the same whether the answer came whole or as a stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from replan.core.limits.prices import tokens_in
from replan.core.types import Usage
from replan.llm.coming import MOST_TOKENS
from replan.ports import ModelRequest

LONGEST_TOKEN = 16
"""Bytes of a token, on the average of a text without its blanks: words have four or five, rows of one sign up to 13."""
MOST_TIMES = 100
"""So much more than the texts are about is thoughts that are not shown, or what the endpoint puts before a request; more is neither."""


class Counted(NamedTuple):
    """`usage` is what is counted. `because`: why that is not what was told; empty if it is."""

    usage: Usage
    because: Literal["", "untold", "impossible"]


_CUT_BYTES = 12
"""Where a token is so many bytes on the average, without blanks, more of a prompt was left out than its words can explain."""
_LONG_PROMPT = 4_000


def prompt_was_cut(told: Usage, request: ModelRequest) -> bool:
    """Whether the endpoint counts so few tokens of a long prompt that it has probably read a part of it only."""
    if request.tokens < _LONG_PROMPT or not told.input_tokens:
        return False
    asked = (request.instructions, *(turn.text for turn in request.turns))
    return told.input_tokens < _least(asked) * LONGEST_TOKEN // _CUT_BYTES


def counted(told: Usage, request: ModelRequest, said: Iterable[str]) -> Counted:
    """What one answer counts for. `said`: its words and its thoughts, as far as they are shown."""
    asked = (request.instructions, *(turn.text for turn in request.turns))
    said = list(said)
    estimates = {
        "input_tokens": (request.tokens, _least(asked)),  # some count the schema, others do not
        "output_tokens": (tokens_in(said), _least(said)),
    }
    instead: dict[str, int] = {}
    untold = True
    for name, (about, least) in estimates.items():
        number = getattr(told, name)
        if number == 0 and about:
            instead[name] = about
        elif not least <= number <= max(MOST_TIMES * about, MOST_TOKENS):
            instead[name], untold = about, False
    if not instead:
        return Counted(told, "")
    if "input_tokens" in instead:
        instead["cached_tokens"] = 0
    return Counted(told.model_copy(update=instead), "untold" if untold else "impossible")


def _least(texts: Iterable[str]) -> int:
    """How many tokens they surely are. Blanks are not counted: many of them may be one."""
    return (
        sum(len(text.encode("utf-8", "replace")) - sum(map(text.count, _BLANKS)) for text in texts)
        // LONGEST_TOKEN
    )


_BLANKS = " \n\t\r"
