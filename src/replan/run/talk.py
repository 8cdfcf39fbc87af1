"""One role's way to its model: charged before it is asked, recorded before and after."""

from __future__ import annotations

import time

from replan.core.budget import limit_reached
from replan.core.events import LlmCallCompleted, LlmCallStarted, LlmToken
from replan.core.types import Role
from replan.errors import ModelError, ModelUnavailable
from replan.ports import ModelReply, ModelRequest
from replan.reasoning.prompts import Rendered
from replan.run.context import Run
from replan.run.stops import BudgetReached


class RoleTalk:
    """`reasoning.ask.Talk` for one role of one run."""

    def __init__(self, run: Run, role: Role) -> None:
        self._run = run
        self._model = run.parts.models.get(role)

    @property
    def style(self) -> str:
        return "standard" if self._model is None else self._model.style

    async def ask(self, role: Role, request: ModelRequest, prompt: Rendered, attempt: int) -> ModelReply:
        """Ask once. `BudgetReached` before the call, `ModelUnavailable` after it."""
        run, model = self._run, self._model
        if model is None:
            raise ModelUnavailable(f"there is no model for {role}", setup=True)
        if limit := limit_reached(run.state.policy.budget, run.state.usage, what="llm"):
            raise BudgetReached(limit)
        call_id = run.parts.ids.new("llm")
        run.record(
            LlmCallStarted(
                call_id=call_id, role=role, model=model.name, schema_name=request.schema_name,
                prompt=prompt.name, prompt_hash=prompt.hash, attempt=attempt,
                text=_as_text(request),
            )
        )  # fmt: skip

        def on_text(piece: str) -> None:
            run.tell(LlmToken(call_id=call_id, role=role, text=piece))

        started = time.perf_counter()
        streaming = run.state.policy.enable_streaming
        try:
            reply = await model.ask(request, on_text if streaming else None)
        except ModelError as error:
            run.record(
                LlmCallCompleted(
                    call_id=call_id, role=role, model=model.name,
                    duration_secs=time.perf_counter() - started, error=str(error),
                )
            )  # fmt: skip
            raise
        run.record(
            LlmCallCompleted(
                call_id=call_id, role=role, model=reply.model or model.name, usage=reply.usage,
                duration_secs=time.perf_counter() - started, text=reply.text,
            )
        )  # fmt: skip
        return reply


def _as_text(request: ModelRequest) -> str:
    """The request for developers to read; of a correction only what is new, the rest is in the call before."""
    if len(request.turns) > 1:
        return "\n\n".join(f"[{turn.role}]\n{turn.text}" for turn in request.turns[-2:])
    return f"[instructions]\n{request.instructions}\n\n[user]\n{request.turns[0].text}"
