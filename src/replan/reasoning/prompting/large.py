"""Prompts that show large outputs are put together beside the event loop: each is written as JSON before it is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE, weight
from replan.reasoning.prompting.prompts import Rendered
from replan.reasoning.prompting.view import StepReport


async def put_together(make: Callable[[], Rendered], shown: Iterable[StepReport]) -> Rendered:
    """The prompt that `make` makes of these steps."""
    left = AT_ONCE
    for step in shown:
        left -= weight((step.output, step.output_text, step.parameters), AT_ONCE)
        if left < 0:
            return await beside(make)
    return make()
