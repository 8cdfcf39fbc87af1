"""The MCP server: its tools, whatever the transport."""

from __future__ import annotations

import difflib
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache, partial
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from pydantic import BaseModel, ValidationError

from replan.core.types import JsonObject
from replan.core.words import in_digits
from replan.errors import InputError
from replan.run.access.callers import Caller, reader
from replan.server.mcp.asking import (
    Answers,
    AsksLater,
    AsksNow,
    asked,
    can_be_asked,
    heard_again,
    state_of,
)
from replan.server.mcp.catalogue import FOR_PEOPLE, OFFERED, Offered, submit
from replan.server.mcp.following import AskedLater, Asker, Following
from replan.server.mcp.messages import Outcome
from replan.server.mcp.outcomes import outcome_of
from replan.server.problems import INTERNAL, LEAVING, Problem, problem_of
from replan.server.shared import Shared

Context = ServerRequestContext[Any, Any]
CallerOf = Callable[[Context], Awaitable[Caller]]
WhileKnown = Callable[[Context, Coroutine[Any, Any, Outcome]], Awaitable[Outcome]]
_INSTRUCTIONS = (
    "Replan does tasks: it plans, checks, carries out, judges and repairs, and never makes a side effect twice. Hand it a whole task with "
    "`run_task`. What takes longer than a call goes on by itself: wait again with `wait_task`, and do not begin it again. Calls that need "
    "a person's yes wait for it: show the person the call, and never decide in their place."
)
log = logging.getLogger("replan.server")


class Tools:
    """The tools for one way in. `caller_of`: who calls now, `NotSignedIn` if that is nobody any more. `for_people`: whether a model is offered to hand on what a person has said."""

    def __init__(
        self,
        here: Shared,
        caller_of: CallerOf,
        while_known: WhileKnown | None = None,
        *,
        for_people: bool = True,
    ) -> None:
        """`while_known`: what it is given comes to, `NotSignedIn` as soon as the caller is nobody any more."""
        self._here = here
        self._caller_of = caller_of
        self._while_known = while_known
        self._secret = secrets.token_bytes(32)
        self._offered = {name: one for name, one in OFFERED.items() if for_people or name not in FOR_PEOPLE}

    def server(self, version: str) -> Server[Any]:
        return Server(
            "replan",
            version=version,
            title="Replan",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
            get_tool_input_schema=lambda name: schemas(name)[0] if name in self._offered else None,
        )

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        caller = await self._caller_of(ctx)
        offered = {name: one for name, one in self._offered.items() if caller.may(one.scope)}
        return types.ListToolsResult(tools=[_tool(name, one) for name, one in offered.items()])

    async def _call(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            if self._here.leaving.now:
                return _problem(Problem(LEAVING, "this service is about to end: call again when it is back"))
            caller = await self._caller_of(ctx)
            offered = self._offered.get(params.name)
            if offered is None:
                raise InputError(self._unknown(params.name))
            given = _arguments(offered, params.arguments or {})
            if offered.does is None:
                return await self._waited(ctx, params, caller, given)
            return _result(await offered.does(self._here, caller, given))
        except MCPError:
            raise
        except Exception as error:
            problem = problem_of(error)
            if problem.kind is INTERNAL:
                log.error("the tool %s of the MCP server failed", params.name[:100], exc_info=error)
            return _problem(problem)

    async def _waited(
        self, ctx: Context, params: types.CallToolRequestParams, caller: Caller, given: Any
    ) -> types.CallToolResult | types.InputRequiredResult:
        """`run_task`, `wait_task`, `get_result`."""
        before, begun = state_of(params), params.name == "run_task"
        if before is not None:
            task_id = before.task_id
        elif begun:
            task_id = (await submit(self._here, caller, given)).task_id
        else:
            task_id = given.task_id
        mark = self._mark(caller, task_id) if begun else ""
        if begun and (before is None or hmac.compare_digest(mark, _ascii(before.begun))):
            caller = reader(caller)  # whoever begins a task may see what becomes of it
        if params.name == "get_result":
            return _result(await outcome_of(self._here, caller, task_id))
        answers = Answers(self._here, caller, task_id, partial(self._caller_of, ctx))
        if before is not None:
            answers.in_vain |= before.in_vain
            await heard_again(params, answers)
        asker: Asker | None = None
        if can_be_asked(ctx):
            asker = AsksNow(ctx, answers) if ctx.session.can_send_request else AsksLater(answers)
        following = Following(self._here, caller, task_id, ctx.session.report_progress, asker)
        try:
            doing = following.outcome(given.wait_secs, from_the_start=before is None and begun)
            found = await (doing if self._while_known is None else self._while_known(ctx, doing))
            await self._caller_of(ctx)  # a key may have been revoked meanwhile
            return _result(found)
        except AskedLater as later:
            return asked(later.waiting, task_id, answers, mark)

    def _mark(self, caller: Caller, task_id: str) -> str:
        """What nobody makes up: that this caller has begun the task by a call that is not over."""
        text = "\n".join((caller.tenant, caller.who, task_id))
        return hmac.new(self._secret, text.encode(), "sha256").hexdigest()

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._offered, 3)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(self._offered)}"
        return f"there is no tool {name[:100]!r}; {hint}"


def _ascii(text: str) -> str:
    return text if text.isascii() else ""


@cache
def schemas(name: str) -> tuple[JsonObject, JsonObject]:
    """Of what the tool takes, and of what it gives: models read them, so they say nothing twice."""
    one = OFFERED[name]
    takes, gives = one.takes.model_json_schema(), one.gives.model_json_schema(mode="serialization")
    return _short(takes, optional=True), _short(gives, optional=False)


def _short(schema: JsonObject, *, optional: bool) -> JsonObject:
    """Without titles, which are the names again; `optional`: what may be null may be left out, which is said already."""
    found: JsonObject = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            found[key] = {name: _short(part, optional=optional) for name, part in value.items()}
        elif key == "anyOf":
            found[key] = [_short(part, optional=optional) for part in value]
        elif isinstance(value, dict) and key in ("items", "additionalProperties"):
            found[key] = _short(value, optional=optional)
        elif key != "title" and not (key == "default" and "$ref" in schema):
            found[key] = value
    kinds = found.get("anyOf", ())
    if optional and len(kinds) == 2 and {"type": "null"} in kinds and found.get("default", ...) is None:
        rest = next(one for one in kinds if one != {"type": "null"})
        del found["anyOf"], found["default"]
        found = {**rest, **found}
    return found


def _tool(name: str, one: Offered) -> types.Tool:
    takes, gives = schemas(name)
    hints = types.ToolAnnotations(
        read_only_hint=one.reads,
        destructive_hint=one.destructive,
        idempotent_hint=one.reads or one.repeatable,
        open_world_hint=not one.reads,
    )
    return types.Tool(
        name=name, description=one.description, input_schema=takes, output_schema=gives, annotations=hints
    )


def _arguments(offered: Offered, arguments: JsonObject) -> Any:
    try:
        return offered.takes.model_validate(arguments)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong[:20])
        names = ", ".join(offered.takes.model_fields)
        raise InputError(f"the arguments do not fit: {told} (it takes {names})") from None


def _result(value: BaseModel) -> types.CallToolResult:
    text = value.model_dump_json(exclude_none=True)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=value.model_dump(mode="json")
    )


def _problem(problem: Problem) -> types.CallToolResult:
    words = f"{problem.kind.title}: {problem.detail}"
    if problem.retry_after is not None:
        words += f" (try again in {in_digits(problem.retry_after)} s)"
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=True)
