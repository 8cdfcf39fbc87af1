"""What people and callers outside say holds no secret of the task in any log, whoever of two processes knows it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from secret_world import SECRETS, leaks_of_files

from replan import Replan, tool
from replan.errors import ToolCallError

SECRET = SECRETS["given"]


@tool(effect="reads")
def login(api_token: str) -> str:
    """Log in."""
    return f"logged in with {api_token}"


@tool(effect="reads")
def use(what: str) -> str:
    """Use what somebody said."""
    assert what == SECRET
    return f"used {what}"


@tool
def pay(to: str) -> str:
    """Pay."""
    raise ToolCallError("the line went dead", happened="unknown")


def plan() -> dict[str, Any]:
    return {
        "steps": [
            {"step_id": "h", "tool": "create_callback", "parameters": {}},
            {"step_id": "a", "tool": "login", "parameters": {"api_token": "${metadata.word}"}},
            {"step_id": "w", "tool": "wait_for_callback", "parameters": {"token": "${h.output.token}"}},
            {"step_id": "u", "tool": "use", "parameters": {"what": "${w.output.said[0]}"}},
            {
                "step_id": "p",
                "tool": "pay",
                "parameters": {"to": "Ann"},
                "dependencies": ["u"],
                "requires_approval": True,
            },
            {"step_id": "v", "tool": "use", "parameters": {"what": "${p.output}"}},
        ]
    }  # fmt: skip


@pytest.mark.parametrize("other", [False, True], ids=["in the driving process", "where nobody knows it"])
def test_what_is_said_to_a_task_puts_no_secret_into_its_log(tmp_path: Path, other: bool) -> None:
    folder = tmp_path / "db"
    folder.mkdir()
    tools = [login, use, pay]
    many: dict[str, Any] = {"db": folder / "replan.db", "tools": tools, "evaluation": "steps"}

    async def waits(replan: Replan, kind: str) -> str:
        while True:
            result = await replan.wait("t")
            for one in result.waiting_for or ():
                if one.kind == kind:
                    return one.id
            await asyncio.sleep(0.02)

    async def main() -> None:
        async with Replan(**many, interactive=True) as mine, Replan(**many, interactive=True) as theirs:
            who = theirs if other else mine
            await mine.submit("log in", plan=plan(), task_id="t", secrets={"word": SecretStr(SECRET)})
            token = await waits(mine, "callback")
            fork = await mine.fork("t", hint=f"now {SECRET}", reason=f"for {SECRET}", by=f"by {SECRET}")
            await who.hint("t", f"the word is {SECRET}", by=f"me, {SECRET}")
            await who.pause("t", reason=f"since {SECRET}", by=SECRET)
            await who.signal("t", token, {"said": [SECRET]}, by=SECRET)
            await mine.resume("t")
            await waits(mine, "approval")
            await who.approve("t", by=f"{SECRET}!")
            await mine.resume("t")
            await waits(mine, "outcome")
            await who.answer("t", "yes", output=SECRET, by=SECRET)
            result = await mine.resume("t")
            assert result.succeeded, result.reason
            await mine.resume(
                fork
            )  # it heard of the token too: who drives it takes out what only that one knows

    asyncio.run(asyncio.wait_for(main(), 30))
    assert leaks_of_files(folder) == []
