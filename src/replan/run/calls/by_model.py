"""A call that asks a model: the one tool that the loop carries out by asking, within all that binds other questions to models."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE, weight
from replan.core.data.preview import holds_binary
from replan.core.own_tools.model import schema_fault, too_large
from replan.core.types import JsonObject, Role
from replan.errors import AnswerInvalid, ModelUnavailable, ReplanError, ToolCallError
from replan.ports import Model, ToolCall
from replan.reasoning.answering.step_answer import CannotAnswer, answer_step
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


def ask_model(run: Run, request: ToolCall, secs: float | None) -> Coroutine[Any, Any, Any]:
    """What the model answers to such a call, within these seconds.

    `ToolCallError` says why there is none; `BudgetReached` where no question may be asked any more.
    """
    talk = RoleTalk(run, "step", streams=False)
    return _asked(run, talk, request) if secs is None else _in_time(run, talk, request, secs)


async def _in_time(run: Run, talk: RoleTalk, request: ToolCall, secs: float) -> Any:
    try:
        return await within(secs, partial(_asked, run, talk), request)
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
