"""Steps that ask a model, for tests of whole tasks: the plans, a model that sorts reviews, and one that takes its time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from run_tasks import FakeTool, Ran, bench, plan, step

from replan.core.types import JsonObject
from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel, virtual_time

LABEL: JsonObject = {
    "type": "object",
    "properties": {"label": {"enum": ["good", "bad"]}},
    "required": ["label"],
    "additionalProperties": False,
}
REVIEWS = ["I like it", "It broke", "Never again"]
TEXTS = FakeTool(output=REVIEWS)


def asks(step_id: str, *needs: str, instruction: str = "Sort the review.", **more: Any) -> JsonObject:
    outer = {name: more.pop(name) for name in ("for_each", "timeout_secs") if name in more}
    return step(step_id, "model", *needs, parameters={"instruction": instruction, **more}, **outer)


def material(request: ModelRequest) -> str:
    """What stands in the fence of the input."""
    found = re.search(r"^(~+) input\n(.*)\n\1$", request.turns[0].text, re.DOTALL | re.MULTILINE)
    return found[2] if found else ""


def sorts(request: ModelRequest) -> JsonObject:
    return {"answer": {"label": "good" if "like" in material(request) else "bad"}}


class Slow(ScriptedModel):
    """A model that takes its time, and counts how many are asked at once."""

    def __init__(self, answers: Any, secs: float) -> None:
        super().__init__(answers)
        self.secs, self.running, self.most = secs, 0, 0

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.secs)
            return await super().ask(request, on_text)
        finally:
            self.running -= 1


def run(wanted: JsonObject | None, answers: Any = None, tools: Any = None, **more: Any) -> Ran:
    model = more.pop("model", None)

    async def main() -> Ran:
        made = await bench(tools or {"texts": TEXTS}, answers, model=model)
        return (await made.run(wanted, **more)).check()

    return virtual_time(main())


SORTED = plan(
    step("texts", "texts"), asks("sorted", for_each="${texts.output}", input="${item}", schema=LABEL)
)

ONE = plan(asks("one", input="It broke", schema=LABEL))
