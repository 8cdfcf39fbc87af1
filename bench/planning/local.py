"""The built-in model without the loop around it: what the measure talks to."""

from __future__ import annotations

import time

from replan.core.types import Role
from replan.llm.local import LocalModel
from replan.ports import ModelReply, ModelRequest
from replan.reasoning.prompts import Rendered


class LocalTalk:
    """A `Talk` straight to the model: no budget, no log, no retry. Keeps the answers, and counts the seconds."""

    def __init__(self, path: str | None = None) -> None:
        self._model = LocalModel(path=path)
        self.style = self._model.style
        self.secs = 0.0
        self.texts: list[str] = []

    async def ask(self, role: Role, request: ModelRequest, prompt: Rendered, attempt: int) -> ModelReply:
        began = time.monotonic()
        reply = await self._model.ask(request)
        self.secs += time.monotonic() - began
        self.texts.append(reply.text)
        return reply

    async def aclose(self) -> None:
        """Let the model go."""
        await self._model.aclose()
