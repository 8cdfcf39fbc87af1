"""One call of one tool, without a task: checked, within its limits, not recorded."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replan.core.data.schemas import parameter_problems
from replan.core.failures.faults import text_of
from replan.core.secrets import KnownSecrets
from replan.core.words import in_digits
from replan.errors import InputError, ReplanError, ToolCallError
from replan.ports import ToolCall
from replan.tools.catalog.catalog import Catalog

_TELL_SECS = 0.1
_LET_GO_SECS = 1.0


async def call_directly(
    catalog: Catalog, tool_id: str, parameters: Mapping[str, Any], *, key: str, secrets: KnownSecrets
) -> Any:
    """What the tool gives. `InputError` for an unknown tool or wrong parameters; an exception of the tool comes as
    `ToolCallError` with the place that raised it."""
    if not isinstance(tool_id, str):
        raise InputError(f"call: expected the id of a tool, found {tool_id!r:.80}")
    if not isinstance(parameters, Mapping):
        raise InputError(f"call: expected parameters like {{'city': 'Rome'}}, found {parameters!r:.80}")
    spec = catalog.resolve(tool_id)
    if spec is None:
        near, count = catalog.nearest(tool_id), len(catalog.specs())
        lead = "there are" if len(near) == count else f"the nearest of {count}"
        raise InputError(f"the tool {tool_id!r} does not exist; {lead}: {', '.join(near) or 'none'}")
    given = dict(parameters)
    secrets.learn(spec, given)
    if found := parameter_problems(spec, given):
        raise InputError(f"the parameters do not fit tool {spec.id!r}: " + secrets.hide("; ".join(found)))
    gate = catalog.gate(spec.id)
    task = asyncio.current_task()
    with contextlib.ExitStack() as held:
        if gate is not None:
            await gate.enter()
            gate.begin()
            held.callback(gate.leave)
        try:
            return await _within(spec.timeout_secs, catalog, ToolCall(spec.id, given, key))
        except GeneratorExit as error:
            if not _is_running(task):  # our own coroutine is closed
                raise
            raise ToolCallError(
                f"tool {spec.id!r} raised GeneratorExit, which ends a generator, not a call"
            ) from error
        except ToolCallError as error:
            error.args = tuple(secrets.hide(part) if isinstance(part, str) else part for part in error.args)
            raise
        except ReplanError:
            raise
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            raise
        except BaseException as error:  # a tool may raise what it likes
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise ToolCallError(
                secrets.hide(
                    f"tool {spec.id!r} raised {text_of(error)} ({Path(where.filename).name}:{where.lineno})"
                )
            ) from error


def _is_running(task: asyncio.Task[Any] | None) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # the loop has ended
        return False


async def _within(secs: float | None, catalog: Catalog, call: ToolCall) -> Any:
    """The answer within the tool's own limit. A tool that does not listen when it is stopped is left behind."""
    if secs is None:
        return await catalog.call(call)
    # A source that keeps the time itself may tell a little earlier what has become of the call.
    call = call._replace(deadline_secs=secs - min(_TELL_SECS, secs / 4))
    task = asyncio.ensure_future(catalog.call(call))
    try:
        done, _ = await asyncio.wait({task}, timeout=secs)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=_LET_GO_SECS)
        raise
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=_LET_GO_SECS)
    if task.done() and not task.cancelled() and (done or task.exception() is None):
        return task.result()
    task.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
    raise ToolCallError(
        f"{call.tool_id!r} gave no answer within its {in_digits(secs)} seconds", kind="timeout"
    )
