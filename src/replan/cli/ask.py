"""Asking the person at the terminal what a waiting task needs."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from replan.cli.terminal import say
from replan.cli.words import clean

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.core.result import TaskResult, WaitingFor

BY = "terminal"


async def answer_all(replan: Replan, result: TaskResult) -> bool:
    """Ask for everything that the task waits for; True if anything was answered."""
    answered = False
    for one in result.waiting_for:
        answered = (
            await (_approval if one.kind == "approval" else _question)(replan, result.task_id, one)
            or answered
        )
    return answered


async def _approval(replan: Replan, task_id: str, one: WaitingFor) -> bool:
    say(f"{clean(one.text, 1_000)}")
    say(f"  {one.tool_id}({clean(json.dumps(one.parameters, ensure_ascii=False, default=str), 2_000)})")
    while True:
        said = (await _line("  yes, no, or other parameters as a JSON object: ")).strip()
        if not said:
            return False
        if said.casefold() in ("y", "yes"):
            await replan.approve(task_id, one.id, by=BY)
            return True
        if said.casefold() in ("n", "no"):
            reason = (await _line("  why not (may be empty): ")).strip()
            await replan.reject(task_id, one.id, reason=reason, by=BY)
            return True
        if await _edited(replan, task_id, one, said):
            return True


async def _edited(replan: Replan, task_id: str, one: WaitingFor, said: str) -> bool:
    from replan.errors import InputError

    try:
        parameters: Any = json.loads(said)
        if not isinstance(parameters, dict):
            raise ValueError("it is no object")
        await replan.approve(task_id, one.id, parameters=parameters, by=BY)
    except (ValueError, InputError) as error:
        say(f"  {clean(str(error), 1_000)}")
        return False
    return True


async def _question(replan: Replan, task_id: str, one: WaitingFor) -> bool:
    from replan.errors import InputError

    say(clean(one.text, 2_000))
    while True:
        said = (await _line("  answer (empty: later): ")).strip()
        if not said:
            return False
        try:
            await replan.answer(task_id, said, one.id, by=BY)
        except InputError as error:
            say(f"  {clean(str(error), 1_000)}")
        else:
            return True


async def _line(prompt: str) -> str:
    """One line from the terminal, the loop going on meanwhile; empty at its end."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
