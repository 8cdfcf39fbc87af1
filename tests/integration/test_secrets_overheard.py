"""What others say to a task that nobody drives is cleared of its secrets by whoever knows them; what looks like one is never written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, SecretStr
from secret_world import SECRETS, leaks_of_files
from typing_extensions import TypedDict

from replan import Replan, tool
from replan.errors import InputError, ToolCallError
from replan.run.service.forking import Forking

SECRET = SECRETS["given"]


class Session(TypedDict):
    number: int
    session: Annotated[str, Field(json_schema_extra={"format": "password"})]


@tool(effect="reads", secrets=["api_token", "second"])
def login(api_token: str, second: str = "") -> str:
    """Log in."""
    return "logged in"


@tool
def pay(to: str) -> Session:
    """Pay."""
    raise ToolCallError("the line went dead", happened="unknown")


def step(step_id: str, name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": name, "dependencies": list(needs), **more}


LOGIN = step("a", "login", parameters={"api_token": "${metadata.word}"})
ASKED = step("p", "login", "a", parameters={"api_token": "${metadata.word}"}, requires_approval=True)
LATER = step("w", "wait_for_time", "a", parameters={"seconds": 3_000})
PAY = step("p", "pay", "a", parameters={"to": "Ann"})


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110 - what another process would see is only to be asked for
        await asyncio.sleep(0.02)


class Two:
    """A task whose secret one process knows, and another process that has its database."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.many: dict[str, Any] = {
            "db": folder / "replan.db", "tools": [login, pay], "evaluation": "steps", "interactive": True,
        }  # fmt: skip

    async def waiting(self, mine: Replan, *steps: dict[str, Any]) -> None:
        await mine.submit(
            "log in", plan={"steps": list(steps)}, task_id="t", secrets={"word": SecretStr(SECRET)}
        )

        async def waits() -> bool:
            return (await mine.result("t")).status == "waiting"

        await until(waits)

    async def clean(self) -> None:
        async def none() -> bool:
            return leaks_of_files(self.folder) == []

        await asyncio.wait_for(until(none), 20)


@pytest.mark.parametrize("step_", [ASKED, LATER], ids=["for a person", "for a time"])
def test_what_another_process_says_to_a_waiting_task_is_cleared_though_nobody_wakes_it(
    tmp_path: Path, step_: dict[str, Any]
) -> None:
    two = Two(tmp_path / "db")

    async def main() -> None:
        async with Replan(**two.many) as mine, Replan(**two.many) as theirs:
            await two.waiting(mine, LOGIN, step_)
            await theirs.hint("t", f"the word is {SECRET}", by=f"me, {SECRET}")
            await theirs.service.fork("t", Forking(task_id="f", reason=f"for {SECRET}"))
            await theirs.pause("t", reason=f"since {SECRET}")
            shown = [*await mine.history("t"), *await mine.history("f")]
            assert SECRET not in str(shown), "who knows it shows none, cleared or not"
            await two.clean()
            assert (await theirs.result("t")).status == "waiting"

    asyncio.run(asyncio.wait_for(main(), 40))


def test_whoever_knows_it_and_speaks_next_clears_what_was_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Two(tmp_path / "db")

    async def main() -> None:
        async with Replan(**two.many) as theirs:
            monkeypatch.setenv("WORD", SECRET)
            async with Replan(**two.many) as mine:
                steps = [LOGIN, ASKED]
                await mine.submit("log in", plan={"steps": steps}, task_id="t", secrets={"word": "env:WORD"})
                await until(lambda: waits_for_a_yes(mine))
            monkeypatch.delenv("WORD")
            await theirs.hint("t", f"it is {SECRET}")
            assert leaks_of_files(two.folder), "nobody who knows it has heard it"
            monkeypatch.setenv("WORD", SECRET)
            await theirs.hint("t", "never mind")
            assert leaks_of_files(two.folder) == []

    asyncio.run(asyncio.wait_for(main(), 40))


async def waits_for_a_yes(replan: Replan) -> bool:
    result = await replan.result("t")
    return result.status == "waiting" and bool(result.waiting_for)


def test_what_looks_like_a_secret_is_not_written_whoever_says_it(tmp_path: Path) -> None:
    two = Two(tmp_path / "db")
    key, word = "sk-live-abcdefgh12345678", "Hunter_2-forks"

    async def main() -> None:
        async with Replan(**two.many) as mine, Replan(**two.many) as theirs:
            await two.waiting(mine, LOGIN, ASKED)
            await theirs.hint("t", f"ask with {key}, password: {word}", by=f"https://me:{word}@host")
            await mine.pause("t", reason=f"api_key={word}")
            said = str(await theirs.history("t"))
            assert "ask with ***, password: ***" in said

    asyncio.run(asyncio.wait_for(main(), 40))
    for file in two.folder.iterdir():
        assert key.encode() not in file.read_bytes()
        assert word.encode() not in file.read_bytes()


def test_no_secret_parameter_is_written_with_a_yes(tmp_path: Path) -> None:
    two = Two(tmp_path / "db")

    async def main() -> None:
        async with Replan(**two.many) as mine, Replan(db=two.many["db"]) as theirs:
            await two.waiting(mine, LOGIN, ASKED)
            for who in (mine, theirs):
                with pytest.raises(InputError, match="second is a secret: it cannot be changed here"):
                    await who.approve("t", parameters={"second": SECRET})

    asyncio.run(asyncio.wait_for(main(), 40))
    assert leaks_of_files(two.folder) == []


@pytest.mark.parametrize("other", [False, True], ids=["here", "by another process"])
def test_what_a_call_gave_is_written_without_what_its_tool_calls_secret(tmp_path: Path, other: bool) -> None:
    two = Two(tmp_path / "db")

    async def main() -> None:
        async with Replan(**two.many) as mine, Replan(**two.many) as theirs:
            await two.waiting(mine, LOGIN, PAY)
            await (theirs if other else mine).answer("t", "yes", output={"number": 7, "session": SECRET})
            assert leaks_of_files(two.folder) == [], "before anybody takes it in"
            result = await mine.resume("t")
            assert result.succeeded, result.reason
            assert result.output == {"number": 7, "session": "***"}

    asyncio.run(asyncio.wait_for(main(), 40))
    assert leaks_of_files(two.folder) == []
