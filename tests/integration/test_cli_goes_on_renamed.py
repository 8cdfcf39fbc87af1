"""A task goes on where a file of its tools has another name or place by now: with what is given, or configured here, in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_process import replan
from test_cli_goes_on import PLAN, TOOLS, approve, resume

RUN = (
    "run",
    "do it",
    "--interactive",
    "--task-id",
    "t",
    "--db",
    "log.db",
    "--plan",
    "plan.json",
    "--evaluation",
    "steps",
)
CONFIG = '[tools]\nsources = ["{}"]\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here" / "tools.py").write_text(TOOLS)
    (tmp_path / "here" / "plan.json").write_text(json.dumps(PLAN))
    return tmp_path / "here"


def begun(place: Path, how: str) -> None:
    if how == "configured":
        (place / "config.toml").write_text(CONFIG.format("tools.py"))
    options = ("--tools", "tools.py") if how == "an option" else ()
    waits = replan(*RUN, *options, cwd=place)
    assert waits.returncode == 5, waits.stderr
    approve(place)
    (place / "tools.py").rename(place / "moved.py")
    (place / "config.toml").unlink(missing_ok=True)


@pytest.mark.parametrize("away", [False, True], ids=["there", "from elsewhere"])
@pytest.mark.parametrize("way", ["an option", "configured", "both"])
@pytest.mark.parametrize("how", ["an option", "configured"])
def test_tools_in_a_file_that_was_renamed_are_taken_from_where_they_are_now(
    place: Path, how: str, way: str, *, away: bool
) -> None:
    begun(place, how)
    at = place.parent / "elsewhere" if away else place
    moved = "../here/moved.py" if away else "moved.py"
    if way != "an option":
        (at / "config.toml").write_text(CONFIG.format(moved))
    options = () if way == "configured" else ("--tools", moved)
    waits = resume(place, *options, away=away)
    assert waits.returncode == 5, waits.stderr
    if how == "configured":
        assert "tools.py is not to be had any more" in waits.stderr
    (at / "config.toml").unlink(missing_ok=True)
    approve(place)
    done = resume(place)
    assert done.returncode == 0, f"the log has it: {done.stderr}"
    notes = place if (place / "notes.txt").exists() else at
    assert "one\n" in (notes / "notes.txt").read_text()


@pytest.mark.parametrize("how", ["an option", "configured"])
def test_a_file_that_is_gone_is_named_with_what_to_give(place: Path, how: str) -> None:
    begun(place, how)
    lacks = resume(place)
    assert lacks.returncode == 2
    assert "there is no file tools.py" in lacks.stderr
    assert "give its tools anew with --tools, or as [tools] sources of the configuration here" in lacks.stderr
    (place / "moved.py").rename(place / "tools.py")
    assert resume(place).returncode == 5


def test_what_of_the_configuration_is_still_there_stays_where_tools_are_given(place: Path) -> None:
    (place / "more.py").write_text("def more() -> int:\n    return 1\n")
    (place / "config.toml").write_text(CONFIG.format("tools.py"))
    assert replan(*RUN, cwd=place).returncode == 5
    approve(place)
    (place / "config.toml").unlink()
    waits = resume(place, "--tools", str(place / "more.py"))
    assert waits.returncode == 5, waits.stderr
    assert (place.parent / "elsewhere" / "notes.txt").read_text() == "one\n"


SHOP = {
    "openapi": "3.0.3",
    "info": {"title": "shop", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "components": {"securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}}},
    "paths": {
        "/orders": {
            "post": {
                "operationId": "order", "security": [{"k": []}],
                "responses": {"201": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}},
            }
        }
    },
}  # fmt: skip


def test_a_secret_of_a_source_that_is_missing_is_named(place: Path) -> None:
    (place / "shop.json").write_text(json.dumps(SHOP))
    (place / "plan.json").write_text(
        json.dumps(
            {"steps": [{"step_id": "a", "tool": "order", "parameters": {}, "requires_approval": True}]}
        )
    )
    waits = replan(*RUN, "--tools", "openapi:shop.json", cwd=place, env={"OPENAPI_SHOP_K": "s3cret"})
    assert waits.returncode == 5, waits.stderr
    lacks = resume(place)
    assert lacks.returncode == 2
    assert "goes on with 'order'" in lacks.stderr
    assert "OPENAPI_SHOP_K in the environment" in lacks.stderr
    assert "give those" not in lacks.stderr
