"""One role's way to its model: charged before it is asked, recorded before and after."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from replan.beside import beside
from replan.core.data.pieces import ANSWER_AT_ONCE
from replan.core.data.strict_json import storable
from replan.core.events import LlmCallCompleted, LlmCallStarted, LlmToken, ProgressUpdate
from replan.core.failures.transport import status_of, status_passes, transport_kind
from replan.core.limits.prices import total
from replan.core.secrets import Pieces
from replan.core.types import Role, Usage
from replan.errors import ModelUnavailable, RecordingError, ReplanError
from replan.ports import Model, ModelReply, ModelRequest, Turn
from replan.reasoning.prompting.prompts import Rendered
from replan.run.session.context import Run
from replan.run.session.known_secrets import learn_answer, may_hold_secrets
from replan.run.session.model_requests import Asking
from replan.run.session.stops import BudgetReached, Halted, ModelAway, warn

log = logging.getLogger("replan")
_OF_A_CALL = ("step_answer",)
"""What is asked as a call of a plan is made: without an answer the call has failed, and may be tried again."""
_OF_A_STEP = ("step_reflection", "step_repair")
_LATE = (
    "the metadata {name!r} is put into a secret parameter: it has been taken out of the log, but the model was shown it "
    "before that was known; give it as a secret next time (--secret {name}=env:VARIABLE, or secrets=)"
)


class RoleTalk:
    """`reasoning.prompting.ask.Talk` for one role of one run."""

    def __init__(self, run: Run, role: Role, *, streams: bool = True) -> None:
        """`streams`: whoever watches is told the answer as it comes."""
        self._run = run
        self._streams = streams
        self._given_up = False
        self._open: dict[str, LlmCallStarted] = {}
        """The calls that are under way."""
        self._model = run.parts.models.get(role)
        self._late: dict[str, Any] = {}
        """Metadata that an answer has shown to be secret, by place: still in the log."""

    @property
    def style(self) -> str:
        return "standard" if self._model is None else self._model.style

    async def ask(self, role: Role, request: ModelRequest, prompt: Rendered, attempt: int) -> ModelReply:
        """Ask once. `BudgetReached` before the call, `ModelUnavailable` or `Halted` after it."""
        run, model = self._run, self._model
        if run.stopping or self._given_up:
            raise asyncio.CancelledError
        if model is None:
            raise ModelUnavailable(f"there is no model for {role}", setup=True)
        asking = Asking(run, model, request)
        asking.allow()
        warn(run)
        request = self._without_secrets(request)
        call_id = run.parts.ids.new("llm")
        asked = LlmCallStarted(
            call_id=call_id, role=role, model=model.name, schema_name=request.schema_name,
            prompt=prompt.name, prompt_hash=prompt.hash, attempt=attempt,
            text=_as_text(request), tokens=asking.asked.input_tokens,
        )  # fmt: skip
        run.record(asked)
        self._open[call_id] = asked

        pieces = Pieces(run.secrets, whole=may_hold_secrets(run.parts.tools))

        def tell(text: str) -> None:
            if text:
                run.tell(LlmToken(call_id=call_id, role=role, text=text))

        def on_text(piece: str) -> None:
            tell(pieces.take(piece))

        started = time.perf_counter()
        streaming = self._streams and run.state.policy.enable_streaming
        with asking.under_way(call_id):
            try:
                watched = request.model_copy(update={"watcher": asking})
                reply = await self._answer(model, watched, on_text if streaming else None)
            except Exception as error:
                self._still_open(call_id)
                before = f"; before that: {asking.because}" if isinstance(error, BudgetReached) else ""
                said = tuple(run.secrets.hide(part) if isinstance(part, str) else part for part in error.args)
                if said != error.args:  # an endpoint that repeats the key, say
                    error.args = said
                await self._take_out()
                run.record(
                    LlmCallCompleted(
                        call_id=call_id, role=role, model=model.name, usage=asking.in_vain(),
                        duration_secs=time.perf_counter() - started, error=storable(f"{error}{before}"),
                    )
                )  # fmt: skip
                if isinstance(error, ModelUnavailable) and self._goes_back(error, request):
                    raise ModelAway(str(error)) from error
                if isinstance(error, ModelUnavailable) and self._may_halt(request):
                    if error.refused:
                        raise Halted(str(error), "key") from error
                    # without a judge the round ends unjudged (specification §3)
                    unscripted = isinstance(error, RecordingError) and request.schema_name not in _OF_A_STEP
                    if unscripted or (error.transient and role != "evaluation"):
                        raise Halted(str(error), "model") from error
                raise
        self._still_open(call_id)
        reply = reply.model_copy(update={"text": storable(reply.text)})
        await self._learn_beside(reply.text)
        await self._take_out()
        if self._streams:
            tell(pieces.rest())
        run.record(
            LlmCallCompleted(
                call_id=call_id, role=role, model=reply.model or model.name, usage=asking.with_all(reply.usage),
                duration_secs=time.perf_counter() - started, text=reply.text,
                endpoint=reply.endpoint if reply.endpoint != model.name else "",
            )
        )  # fmt: skip
        return reply

    def _still_open(self, call_id: str) -> None:
        """Whose call was given up meanwhile has nothing more to say of it."""
        if self._open.pop(call_id, None) is None:
            raise asyncio.CancelledError

    def give_up(self, why: str) -> None:
        """Record the end of what is asked, whose answer nobody waits for any more, while the run goes on. Nothing more is asked."""
        run, self._given_up = self._run, True
        for call_id, asked in self._open.items():
            run.record(cut_off(run, asked, why))
            run.asking.pop(call_id, None)
        self._open.clear()

    def _goes_back(self, error: ModelUnavailable, request: ModelRequest) -> bool:
        """True if somebody else may ask, or the same later: nothing is lost by it. Who asks about a failed step lets the others
        end first."""
        if not self._run.parts.gives_back or isinstance(error, RecordingError):
            return False
        away = error.refused or (error.transient and request.schema_name != "evaluation")
        return away and request.schema_name not in _OF_A_CALL

    def _may_halt(self, request: ModelRequest) -> bool:
        """True if the task can wait here: it has come to a plan, or to a person's answer."""
        state = self._run.state
        begun = state.plan is not None or (state.recovery is not None and bool(state.recovery.answers))
        return begun and request.schema_name not in _OF_A_CALL

    def _without_secrets(self, request: ModelRequest) -> ModelRequest:
        """What is asked, in which no secret is: the one place where a prompt leaves."""
        hide = self._run.secrets.hide

        def hidden(text: str) -> str:
            self._learn(text)  # a model's answer that is written down as it came
            return hide(text)

        if not self._run.secrets:
            return request.model_copy(update={"hide": hidden})
        turns = tuple(Turn(role=turn.role, text=hide(turn.text)) for turn in request.turns)
        return request.model_copy(
            update={"instructions": hide(request.instructions), "turns": turns, "hide": hidden}
        )

    async def _learn_beside(self, text: str) -> None:
        """`_learn`, beside the event loop where the text is long."""
        run = self._run
        if len(text) <= ANSWER_AT_ONCE:
            self._learn(text)
        else:
            late = await beside(learn_answer, run.secrets, text, run.parts.tools, run.state.metadata)
            self._late |= late

    def _learn(self, text: str) -> None:
        """Know the secrets that an answer holds before any of it is kept."""
        run = self._run
        self._late |= learn_answer(run.secrets, text, run.parts.tools, run.state.metadata)

    async def _take_out(self) -> None:
        """Take what turned out to be secret out of the log, once, and say so."""
        if not self._late:
            return
        run = self._run
        told = run.told = run.told or set()
        late, self._late = {place: self._late[place] for place in self._late if place not in told}, {}
        if not late:
            return
        told.update(late)
        await run.redact(late)
        for name in dict.fromkeys(place.partition(".")[0] for place in late):
            said = _LATE.format(name=name)
            log.warning("task %s: %s", run.task_id, said)
            run.tell(ProgressUpdate(message=said))

    async def _answer(
        self, model: Model, request: ModelRequest, on_text: Callable[[str], None] | None
    ) -> ModelReply:
        """The model's answer; whatever else it raises than our own errors says that it cannot be used now."""
        try:
            return await model.ask(request, on_text)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ModelUnavailable(
                "the call was cut off from inside, though nobody had stopped it"
            ) from error
        except (ReplanError, BudgetReached):
            raise
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            # as an endpoint's fault of this kind is
            status = status_of(error)
            passing = transport_kind(error) is not None if status is None else status_passes(status)
            told = f"{type(error).__name__}: {error}".rstrip(": ")
            raise ModelUnavailable(told, transient=passing) from error


def cut_off(run: Run, asked: LlmCallStarted, why: str) -> LlmCallCompleted:
    """The end of a model call that has none, with what has come of its answer."""
    return LlmCallCompleted(
        call_id=asked.call_id, role=asked.role, model=asked.model, error=why,
        duration_secs=max(0.0, run.now() - run.state.llm_since.get(asked.call_id, run.now())),
        usage=total((Usage(llm_calls=1), run.asking.get(asked.call_id, Usage()))),
    )  # fmt: skip


def _as_text(request: ModelRequest) -> str:
    """The request for developers to read; of a correction only what is new, the rest is in the call before."""
    if len(request.turns) > 1:
        return "\n\n".join(f"[{turn.role}]\n{turn.text}" for turn in request.turns[-2:])
    return f"[instructions]\n{request.instructions}\n\n[user]\n{request.turns[0].text}"
