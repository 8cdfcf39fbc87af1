"""A model that answers from a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

from replan.core.limits.prices import Price
from replan.core.types import Usage
from replan.ports import ModelReply, ModelRequest
from replan.testing.script import Answers, Script, Written


class ScriptedModel:
    """Answers by schema name.

    `answers` maps a schema name (`execution_plan`, `evaluation`, …) to a dict, a text, an exception, a callable
    `(request) -> one of these`, or a list of them that is used up in order; or is one callable for everything.
    `price`: what it says that it costs; without one its price is not known. `requests` holds what was asked, `calls` counts it by schema name, `closed` says whether it was closed.
    """

    def __init__(
        self,
        answers: Answers[ModelRequest] | Callable[[ModelRequest], Written],
        *,
        name: str = "scripted",
        style: Literal["standard", "small"] = "standard",
        piece: int = 16,
        price: Price | None = None,
    ) -> None:
        self.name = name
        self.style: Literal["standard", "small"] = style
        self.requests: list[ModelRequest] = []
        self.calls: Counter[str] = Counter()
        self.closed = False
        self._script = Script(answers)
        self._piece = piece
        self._price = price

    def price(self) -> Price | None:
        return self._price

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        self.requests.append(request)
        self.calls[request.schema_name] += 1
        text = self._script.next(request.schema_name, request)
        if on_text is not None:
            for start in range(0, len(text), self._piece):
                on_text(text[start : start + self._piece])
        asked = len(request.instructions) + sum(len(turn.text) for turn in request.turns)
        usage = Usage(llm_calls=1, input_tokens=asked // 4, output_tokens=len(text) // 4)
        if self._price is not None:
            usage = usage.model_copy(update={"cost_usd": self._price.of(usage)})
        return ModelReply(text=text, model=self.name, usage=usage)

    async def aclose(self) -> None:
        self.closed = True
