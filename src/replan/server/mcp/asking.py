"""What waits for a person, put to them through the client (elicitation): a form out, what was said back to the task."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext

from replan.core.report.result import WaitingFor
from replan.core.types import JsonObject
from replan.core.waits.questions import right_answer
from replan.core.words import one_line, text_of
from replan.errors import ReplanError
from replan.run.access.callers import Caller, reader
from replan.run.access.requests import ApprovalAnswer, PlanReview, QuestionAnswer
from replan.run.access.views import WaitingTask
from replan.server.mcp.following import AskedLater
from replan.server.shared import Shared

ASK_SECS = 600.0
"""How long a form may stand open."""
_MOST_FORMS = 10
"""At once; the others after them."""
_MOST_OF_A_TASK = 500
"""Characters of its description."""
_OUTCOMES = ["yes", "no", "cannot tell"]
_KINDS = frozenset({"approval", "review", "outcome", "intervention", "question"})


def can_be_asked(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client shows forms to a person."""
    known = ctx.session.client_capabilities
    asks = known.elicitation if known is not None else None
    return asks is not None and (asks.form is not None or asks.url is None)


def form_of(one: WaitingTask) -> types.ElicitRequestFormParams:
    """What is asked, whole. What decides comes first; texts that others have written cannot look like it."""
    waits = one.waiting_for
    lines = [one_line(waits.text)]
    if waits.kind == "approval":
        lines += [f"Tool: {waits.tool_id}", f"Parameters: {_json(waits.parameters or {}, indent=2)}"]
        if waits.item_value is not None:
            lines.append(f"Item: {_json(waits.item_value)}")
        if waits.hidden:
            lines.append(f"Not shown as they are: {', '.join(map(_json, waits.hidden))}")
        if one.hash is not None:
            lines.append(f"Call: {one.hash}")
    if one.review is not None:
        lines.append(f"Plan: {_json(_steps(one.review.plan), indent=2)}")
        if one.hash is not None:
            lines.append(f"Hash: {one.hash}")
    if waits.background:
        lines.append(f"Background: {_json(waits.background)}")
    lines.append(f"Task: {_json(one.description[:_MOST_OF_A_TASK])}")
    return types.ElicitRequestFormParams(message="\n".join(lines), requested_schema=_schema(waits))


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _steps(plan: JsonObject) -> list[JsonObject]:
    """What a person has to see of them."""
    seen = ("step_id", "tool", "parameters", "actions", "dependencies", "when", "for_each")
    return [{name: step[name] for name in seen if step.get(name)} for step in plan.get("steps", ())]


def _schema(waits: WaitingFor) -> JsonObject:
    if waits.kind == "review":
        yes = {"type": "boolean", "title": "Carry this plan out", "description": "No: another plan is made."}
        reason = {
            "type": "string",
            "title": "Reason",
            "description": "Of a no: what the next plan should do otherwise.",
        }
        return {"type": "object", "properties": {"approve": yes, "reason": reason}, "required": ["approve"]}
    if waits.kind == "approval":
        yes = {"type": "boolean", "title": "Make this call", "description": "No: it is not made."}
        reason = {"type": "string", "title": "Reason", "description": "Of a no: what should be done instead."}
        return {"type": "object", "properties": {"approve": yes, "reason": reason}, "required": ["approve"]}
    said: JsonObject = {"type": "string", "title": "Answer"}
    if waits.kind == "outcome":
        said["enum"] = _OUTCOMES
    elif waits.kind == "question":
        said |= _field(waits.answer_schema)
    return {"type": "object", "properties": {"answer": said}, "required": ["answer"]}


def _field(schema: JsonObject) -> JsonObject:
    """What a form can ask for: a plain value, or a text that is read as what fits."""
    if isinstance(choices := schema.get("enum"), list):
        return {"enum": [text_of(one) for one in choices]}
    if schema.get("type") in _PLAIN:
        return {name: value for name, value in schema.items() if name in _OF_A_FIELD}
    return {"description": f"Right is {right_answer(schema)}"}


_PLAIN = frozenset({"string", "number", "integer", "boolean"})
_OF_A_FIELD = frozenset(
    {"type", "title", "description", "format", "minLength", "maxLength", "minimum", "maximum"}
)
"""What a form may say of a field."""


class Answers:
    """Hands on what people have said, and knows what was asked in vain."""

    def __init__(
        self,
        here: Shared,
        caller: Caller,
        task_id: str,
        still: Callable[[], Awaitable[Caller]],
    ) -> None:
        """`still`: who calls, now: a form may have stood open longer than a key was good."""
        self._here = here
        self._caller = caller
        self._still = still
        self._task_id = task_id
        self.in_vain: set[str] = set()
        """Ids that nobody wanted to answer, or whose answer could not be used."""

    def wants(self, waiting: list[WaitingTask]) -> list[WaitingTask]:
        if not self._caller.may("approve"):
            return []
        return [
            one
            for one in waiting
            if one.waiting_for.kind in _KINDS and one.waiting_for.id not in self.in_vain
        ]

    async def heard(self, kind: str, asked_id: str, call: str | None, said: types.ElicitResult) -> None:
        self.in_vain.add(asked_id)  # whatever comes of it, it is not asked again in this call
        content = said.content or {}
        if said.action != "accept":
            return
        caller = await self._still()
        uses, task_id = self._here.use_cases, self._task_id
        try:
            if kind == "approval" and isinstance(content.get("approve"), bool):
                answer = ApprovalAnswer.model_validate({
                    "approved": content["approve"], "hash": call, "reason": str(content.get("reason") or "")[:10_000],
                })  # fmt: skip
                await uses.approve(caller, task_id, asked_id, answer)
            elif kind == "review" and isinstance(content.get("approve"), bool):
                reviewed = PlanReview.model_validate({
                    "approved": content["approve"], "hash": call, "reason": str(content.get("reason") or "")[:10_000],
                })  # fmt: skip
                version = len(await uses.plans(reader(caller), task_id))
                await uses.review(caller, task_id, version, reviewed)
            elif kind not in ("approval", "review") and (given := content.get("answer")) not in (None, ""):
                words = given[:100_000] if isinstance(given, str) else ""
                answered = QuestionAnswer(text=words, output=None if words else given)
                await uses.answer(caller, task_id, asked_id, answered)
        except ReplanError:
            pass  # somebody was faster, say: how it stands is told by what waits


class AsksNow:
    """Of a client that can be asked in the middle of a call."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], answers: Answers) -> None:
        self._ctx = ctx
        self._answers = answers
        self._able = True

    def wants(self, waiting: list[WaitingTask]) -> list[WaitingTask]:
        return self._answers.wants(waiting) if self._able else []

    async def ask(self, waiting: list[WaitingTask], gone: Awaitable[None]) -> None:
        one = waiting[0]  # the others after it
        form = form_of(one)
        asking = asyncio.ensure_future(
            self._ctx.session.elicit_form(form.message, form.requested_schema, self._ctx.request_id)
        )
        other = asyncio.ensure_future(gone)
        try:
            await asyncio.wait({asking, other}, timeout=ASK_SECS, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                if not other.done():
                    self._answers.in_vain.add(one.waiting_for.id)
                return
            said = asking.result()
        except (MCPError, ValueError):  # it cannot, after all, or says what is no answer
            self._able = False
            return
        finally:
            asking.cancel()
            await asyncio.wait({asking})
        await self._answers.heard(one.waiting_for.kind, one.waiting_for.id, one.hash, said)


class AsksLater:
    """Of a client that is told what to ask, and calls again with the answers (from protocol 2026-07-28 on)."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def wants(self, waiting: list[WaitingTask]) -> list[WaitingTask]:
        return self._answers.wants(waiting)

    async def ask(self, waiting: list[WaitingTask], gone: Awaitable[None]) -> None:
        raise AskedLater(waiting[:_MOST_FORMS])


class Earlier(NamedTuple):
    """What an earlier round of a call has left with the client."""

    task_id: str
    in_vain: frozenset[str]
    """What was asked in vain."""
    begun: str
    """What shows that this caller has begun the task; whatever the client likes, where it has made that up."""


def asked(
    waiting: list[WaitingTask], task_id: str, answers: Answers, begun: str
) -> types.InputRequiredResult:
    """What the client is told to ask; what it says next time names the calls that were shown."""
    requests: dict[str, Any] = {
        json.dumps([one.waiting_for.kind, one.waiting_for.id, one.hash]): types.ElicitRequest(
            params=form_of(one)
        )
        for one in waiting
    }
    state = json.dumps({"task_id": task_id, "in_vain": sorted(answers.in_vain), "begun": begun})
    return types.InputRequiredResult(input_requests=requests, request_state=state)


async def heard_again(params: types.CallToolRequestParams, answers: Answers) -> None:
    """Hand on what the client has brought."""
    for key, said in (params.input_responses or {}).items():
        try:
            kind, asked_id, call = json.loads(key)
        except (ValueError, TypeError, RecursionError):
            continue  # no question of ours
        if isinstance(said, types.ElicitResult) and isinstance(asked_id, str):
            await answers.heard(str(kind), asked_id, call if isinstance(call, str) else None, said)


def state_of(params: types.CallToolRequestParams) -> Earlier | None:
    """What an earlier round of this call has left; None: this is the first one."""
    if params.request_state is None:
        return None
    try:
        state = json.loads(params.request_state)
        in_vain = frozenset(str(one) for one in state["in_vain"])
        return Earlier(str(state["task_id"]), in_vain, str(state.get("begun", "")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MCPError(types.INVALID_PARAMS, "requestState is not what this server has given") from None
