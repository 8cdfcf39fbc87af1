"""What a fork has made and undone stays known to its family: it is not removed before the others are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_process import replan as command

from replan import Replan, tool
from replan.errors import InputError

pytestmark = pytest.mark.anyio

DONE: list[str] = []


@tool(effect="once")
def pay(name: str) -> str:
    DONE.append(f"pay {name}")
    return "paid"


@tool(effect="once")
def refund(name: str) -> str:
    DONE.append(f"refund {name}")
    return "refunded"


@tool(effect="reads")
def fails(name: str) -> str:
    raise ValueError("no such account")


@tool(effect="reads")
def look(name: str) -> str:
    return name


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    DONE.clear()
    return (
        tmp_path / "log.db" if request.param == "sqlite" else request.getfixturevalue("new_postgres_schema")()
    )


def opened(db: Any) -> Replan:
    return Replan(tools=[pay, refund, look, fails], db=db, evaluation="steps")


def only(name: str, tool_name: str) -> dict[str, Any]:
    return {"steps": [{"step_id": name, "tool": tool_name, "parameters": {"name": "A"}}]}


async def refunded(replan: Any) -> None:
    """P has paid, its fork F has taken that back, and its fork L has only looked."""
    wanted = only("a", "pay")["steps"] + only("x", "fails")["steps"]
    assert (await replan.run("pay", plan={"steps": wanted}, task_id="P")).status == "failed"
    for name, what in (("F", "refund"), ("L", "look")):
        await replan.fork("P", plan=only("b", what), fork_id=name)
        assert (await replan.wait(name)).is_success


async def test_a_fork_that_undid_something_stays_as_long_as_its_family(database: Any) -> None:
    async with opened(database) as replan:
        await refunded(replan)
        await replan.run("look", plan=only("a", "look"), task_id="other")
        summary = await replan.summary("F")
        for dry_run in (True, False):
            found = await replan.prune(status=["succeeded"], dry_run=dry_run)
            assert [one.task_id for one in found.tasks] == ["other", "L"]
            assert found.known_by == ("F",)
        assert (await replan.summary("F")) == summary
        with pytest.raises(InputError, match="go by what it has done"):
            await replan.delete("F")
        await replan.fork("P", plan=only("again", "pay"), fork_id="G")
        again = await replan.wait("G")
        assert not again.is_success
        assert "(refund) of task 'F'" in again.reason
    assert DONE == ["pay A", "refund A"]


async def test_a_family_goes_together_and_what_had_no_effects_at_any_time(database: Any) -> None:
    async with opened(database) as replan:
        await refunded(replan)
        await replan.delete("L")
        found = await replan.prune(older_than_days=0, dry_run=False)
        assert [one.task_id for one in found.tasks] == ["F", "P"]
        assert found.known_by == ()
        assert await replan.tasks() == []


async def test_who_says_force_deletes_it_all_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path / "log.db") as replan:
        await refunded(replan)
    db = ("--db", "log.db")
    refused = command("tasks", "delete", "F", *db, cwd=tmp_path)
    assert refused.returncode == 2
    assert "prune" in refused.stderr
    assert command("tasks", "delete", "F", "--force", *db, cwd=tmp_path).returncode == 0
