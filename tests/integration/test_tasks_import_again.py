"""A file of unfinished tasks is taken in once: what was done since is not done again, whoever removes what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan as command

from replan import Replan, tool
from replan.errors import InputError, TaskGoneFrom

pytestmark = pytest.mark.anyio

SENT: list[str] = []


@tool(effect="once", requires_approval=True)
def send(text: str) -> str:
    SENT.append(text)
    return f"sent {text}"


PLAN = {
    "steps": [
        {"step_id": "a", "tool": "send", "parameters": {"text": "a"}},
        {"step_id": "b", "tool": "send", "parameters": {"text": "b"}, "dependencies": ["a"]},
    ]
}


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    SENT.clear()
    if request.param == "sqlite":
        return tmp_path / "from.db", tmp_path / "to.db"
    new = request.getfixturevalue("new_postgres_schema")
    return new(), new()


def opened(db: Any) -> Replan:
    return Replan(tools=[send], db=db, evaluation="steps", interactive=True)


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def moved(db: Any, task_id: str = "t") -> bytes:
    async with opened(db) as replan, replan.export_tasks([task_id], move=True) as given:
        return b"".join([piece async for piece in given])


async def begun(db: Any, task_id: str = "t") -> None:
    async with opened(db) as replan:
        await replan.run("send them", plan=PLAN, task_id=task_id)


async def gone_on(db: Any, task_id: str = "t", times: int = 2) -> str:
    async with opened(db) as replan:
        for _ in range(times):
            await replan.approve(task_id, (await replan.result(task_id)).waiting_for[0].id)
            status = (await replan.resume(task_id)).status
        return status


async def imported(db: Any, data: bytes, **how: bool) -> list[tuple[str, bool, bool]]:
    async with opened(db) as replan:
        return [(one.status, one.new, one.further) for one in await replan.import_tasks(pieces(data), **how)]


@pytest.mark.parametrize("times", [1, 2], ids=["goes on", "ended"])
async def test_a_task_that_has_gone_on_stays_as_it_is(databases: tuple[Any, Any], times: int) -> None:
    here, there = databases
    await begun(here)
    data = await moved(here)
    assert await imported(there, data) == [("waiting", True, False)]
    assert await imported(there, data) == [("waiting", False, False)]
    status = await gone_on(there, times=times)
    before = len(SENT)
    assert await imported(there, data) == [(status, False, True)]
    assert len(SENT) == before


@pytest.mark.parametrize("how", ["delete", "prune"])
async def test_one_that_is_removed_since_is_not_set_going_again(databases: tuple[Any, Any], how: str) -> None:
    here, there = databases
    await begun(here)
    data = await moved(here)
    await imported(there, data)
    await gone_on(there)
    async with opened(there) as replan:
        if how == "delete":
            await replan.delete("t")
        else:
            await replan.prune(status=["succeeded"], dry_run=False)
        assert await replan.tasks() == []
    for db in (there, here):
        with pytest.raises(InputError, match=r"'t' was here before.*--not-gone-on"):
            await imported(db, data)
    assert SENT == ["a", "b"]
    assert await imported(there, data, not_gone_on=True) == [("waiting", True, False)], (
        "a person says that it has not"
    )


async def test_a_task_comes_home_with_a_later_file_and_not_with_the_first(databases: tuple[Any, Any]) -> None:
    here, there = databases
    await begun(here)
    first = await moved(here)
    await imported(there, first)
    await gone_on(there, times=1)
    second = await moved(there)
    assert await imported(here, second) == [("waiting", True, False)]
    assert await imported(here, first) == [("waiting", False, True)], "it is the beginning of what is here"
    with pytest.raises(InputError, match="was here before"):
        await imported(there, first)
    with pytest.raises(InputError, match="was here before"):
        await imported(there, second)
    await gone_on(here, times=1)
    assert SENT == ["a", "b"]


async def test_one_that_was_gone_on_with_in_two_places_is_not_advised_to_be_deleted(
    databases: tuple[Any, Any],
) -> None:
    here, there = databases
    await begun(here)
    data = await moved(here)
    await imported(there, data)
    await imported(here, data, not_gone_on=True)
    async with opened(there) as replan:
        await replan.pause("t")
    async with opened(here) as replan:
        await replan.hint("t", "not too fast")
    with pytest.raises(InputError, match="the same task, which was gone on with in two places") as refused:
        await imported(there, await moved(here))
    assert "delete" not in str(refused.value)


async def test_of_one_that_is_further_on_in_the_file_the_older_one_is_to_go(
    databases: tuple[Any, Any],
) -> None:
    here, there = databases
    await begun(here)
    data = await moved(here)
    await imported(there, data)
    await imported(here, data, not_gone_on=True)
    await gone_on(there, times=1)
    later = await moved(there)
    with pytest.raises(InputError, match=r"further on.*out of date.*tasks delete t"):
        await imported(here, later)
    async with opened(here) as replan:
        await replan.delete("t", unfinished=True)
    assert await imported(here, later) == [("waiting", True, False)]


async def test_another_task_of_the_same_name_may_come_and_ended_ones_again(
    databases: tuple[Any, Any],
) -> None:
    here, there = databases
    await begun(here)
    data = await moved(here)
    await imported(there, data)
    with pytest.raises(TaskGoneFrom):
        await begun(here)
    async with opened(there) as replan:
        await replan.delete("t", unfinished=True)
    await begun(there)
    other = await moved(there)
    assert await imported(here, other) == [("waiting", True, False)]
    await gone_on(here)
    async with opened(here) as replan, replan.export_tasks(["t"]) as given:
        ended = b"".join([piece async for piece in given])
    for _ in range(2):
        async with opened(here) as replan:
            await replan.delete("t")
        assert await imported(here, ended) == [("succeeded", True, False)]


async def test_what_was_taken_back_is_not_set_going_again_by_its_file(databases: tuple[Any, Any]) -> None:
    here, _ = databases
    await begun(here)
    async with opened(here) as replan:
        kept = replan.export_tasks(["t"], move=True)
        data = b"".join([piece async for piece in await kept.__aenter__()])
        LEFT.append(kept)  # as a process that was killed leaves it
    async with opened(here) as replan:
        assert await replan.take_back(["t"]) == ["t"]
    assert await gone_on(here) == "succeeded"
    assert await imported(here, data) == [("succeeded", False, True)]
    async with opened(here) as replan:
        await replan.delete("t")
    with pytest.raises(InputError, match="was here before"):
        await imported(here, data)
    assert SENT == ["a", "b"]


LEFT: list[Any] = []
"""Contexts that nobody leaves."""


async def test_the_command_says_what_has_become_of_it(tmp_path: Path) -> None:
    SENT.clear()
    here, there, file = tmp_path / "from.db", tmp_path / "to.db", tmp_path / "t.tar"
    await begun(here)
    file.write_bytes(await moved(here))
    name = str(file)
    assert "imported t (waiting)" in command("tasks", "import", name, "--db", str(there), cwd=tmp_path).stderr
    await gone_on(there)
    said = command("tasks", "import", name, "--db", str(there), cwd=tmp_path)
    assert said.returncode == 0
    assert "t is here already, and has gone on since (succeeded)" in said.stderr
    command("tasks", "delete", "t", "--db", str(there), cwd=tmp_path)
    said = command("tasks", "import", name, "--db", str(there), cwd=tmp_path)
    assert said.returncode != 0
    assert "was here before" in said.stderr
    assert "--not-gone-on" in said.stderr
    assert command("tasks", "import", name, "--not-gone-on", "--db", str(there), cwd=tmp_path).returncode == 0
    assert SENT == ["a", "b"]
