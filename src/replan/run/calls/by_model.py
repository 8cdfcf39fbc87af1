"""A call that asks a model: the one tool that the loop carries out by asking, within all that binds other questions to models."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE, weight
from replan.core.data.preview import holds_binary
from replan.core.ids import base_of
from replan.core.own_tools.model import schema_fault, too_large
from replan.core.types import JsonObject, Role
from replan.errors import AnswerInvalid, ModelUnavailable, ReplanError, ToolCallError
from replan.ports import Model, ToolCall
from replan.reasoning.answering.step_answer import CannotAnswer, answer_step
from replan.run.calls.build import own_copy
from replan.run.calls.in_time import within
from replan.run.session.context import Run
from replan.run.session.model_calls import RoleTalk


def why_not_asked(models: Mapping[Role, Model]) -> str:
    """What a step that asks a model lacks here; empty if nothing."""
    try:
        model = models.get("step")
    except ReplanError as error:  # it was never set up
        return f"needs a model, and there is none for steps: {_SET_ONE} ({error})"
    if model is None:
        return f"needs a model, and there is none for steps: {_SET_ONE}"
    if model.style == "small":
        return f"needs a model, and the built-in one ({model.name}) is not made for it: {_SET_ONE}"
    return ""


_SET_ONE = "set [llm] step_model, or default_model for all that is asked"


class Said(NamedTuple):
    """What has come of a question."""

    answer: Any
    error: ToolCallError | None


Asked = dict[str, asyncio.Future[Said | None]]
"""What is being asked, and the latest answers, by the content of the call; None: it came to nothing, as whoever asked was stopped."""
_MOST_KEPT = 256
"""Answers that are kept for calls which had begun before these were in the ledger."""


def ask_model(run: Run, request: ToolCall, secs: float | None, asked: Asked) -> Coroutine[Any, Any, Any]:
    """What the model answers to such a call, within these seconds. One that is `asked` by a like call is not asked again meanwhile.

    `ToolCallError` says why there is none; `BudgetReached` where no question may be asked any more.
    """
    talk = RoleTalk(run, "step", streams=False)
    once = partial(_once, run, talk, asked)
    return once(request) if secs is None else _in_time(once, talk, request, secs)


async def _once(run: Run, talk: RoleTalk, asked: Asked, request: ToolCall) -> Any:
    question = base_of(request.key)
    while (under_way := asked.get(question)) is not None:
        said = await asyncio.shield(under_way)
        if said is not None and said.error is not None:
            raise copy.copy(said.error)
        if said is not None:
            return own_copy(said.answer)
    mine = asked[question] = asyncio.get_running_loop().create_future()
    said = None
    try:
        answer = await _asked(run, talk, request)
        said = Said(own_copy(answer), None)
        return answer
    except ToolCallError as error:
        said = Said(None, error)
        raise
    finally:
        del asked[question]
        if said is not None and said.error is None:
            asked[question] = mine  # behind those that are still being asked
        mine.set_result(said)
        answered = [name for name, one in asked.items() if one.done()]
        for name in answered[:-_MOST_KEPT]:
            del asked[name]


async def _in_time(
    once: Callable[[ToolCall], Coroutine[Any, Any, Any]], talk: RoleTalk, request: ToolCall, secs: float
) -> Any:
    try:
        return await within(secs, once, request)
    except ToolCallError:
        talk.give_up("its step's time was over")
        raise


async def _asked(run: Run, talk: RoleTalk, request: ToolCall) -> Any:
    given = request.parameters
    schema: JsonObject | None = given.get("schema")
    if schema is not None and (problem := schema_fault(schema)):
        raise ToolCallError(f"schema: {problem}", kind="parameter")
    if schema is not None and run.secrets.masked(schema) is not schema:
        raise ToolCallError("schema: there is a secret in it, which no model is shown", kind="parameter")
    material = given.get("input")
    text = await beside(_as_text, material) if weight(material, AT_ONCE) > AT_ONCE else _as_text(material)
    if text is not None and (problem := too_large(text) or _no_text(text)):
        raise ToolCallError(problem, kind="parameter")
    try:
        return await answer_step(
            talk,
            instruction=given["instruction"],
            material=text,
            schema=schema,
            corrections=run.state.policy.max_plan_corrections,
        )
    except CannotAnswer as error:
        raise ToolCallError(
            f"the model says that it cannot be done: {error}", kind="model", happened="no"
        ) from error
    except AnswerInvalid as error:
        hint = "ask for less at once, or for another form" if schema is not None else "ask for less at once"
        raise ToolCallError(f"{error}; {hint}", kind="model", happened="no") from error
    except ModelUnavailable as error:
        kind = "unavailable" if error.transient else "no_model"
        raise ToolCallError(f"the model cannot be asked: {error}", kind=kind, happened="no") from error


def _no_text(text: str) -> str:
    """Why nobody can read it; empty if somebody can."""
    if not holds_binary(b'"' + text.encode(errors="replace")):
        return ""
    return "the input holds bytes (an image, a document, an archive), and a model reads texts here: refer to what a tool has read out of them"


def _as_text(material: Any) -> str | None:
    """The material as a model reads it: a text as it is, all else as JSON."""
    if material is None or isinstance(material, str):
        return material
    return json.dumps(material, ensure_ascii=False)
