"""A model without the loop around it: what the measure talks to."""

from __future__ import annotations

import time

from replan.core.types import Role
from replan.ports import Model, ModelReply, ModelRequest
from replan.reasoning.prompting.prompts import Rendered


class Measured:
    """A `Talk` straight to a model: no budget, no log, no retry. Keeps the answers, and counts the seconds.

    `cpu`: of all of this process's threads, hence of a model that runs in it; less noisy on a busy machine.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.style = self._model.style
        self.secs = 0.0
        self.cpu = 0.0
        self.texts: list[str] = []

    async def ask(self, role: Role, request: ModelRequest, prompt: Rendered, attempt: int) -> ModelReply:
        began, cpu = time.monotonic(), time.process_time()
        reply = await self._model.ask(request)
        self.secs += time.monotonic() - began
        self.cpu += time.process_time() - cpu
        self.texts.append(reply.text)
        return reply

    async def aclose(self) -> None:
        """Let the model go."""
        await self._model.aclose()
