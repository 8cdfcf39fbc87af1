"""Commands that are printed for copying."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replan.cli.terminal.again import again, carried_config, carried_db, carried_key, carried_record, to_go_on


@pytest.fixture(autouse=True)
def nothing_given() -> Iterator[None]:
    yield
    carried_db(None), carried_config(None), carried_key(None), carried_record(None)


def test_a_task_that_is_recorded_is_gone_on_with_by_the_command_that_records() -> None:
    assert to_go_on("t-1") == again("tasks", "resume", "t-1") == "replan tasks resume t-1"
    carried_db("x.db")
    assert to_go_on("t-1") == "replan tasks resume t-1 --db x.db"
    carried_record(Path("r.jsonl"))
    assert "tasks resume" not in to_go_on("t 1")
    assert "the same command once more, with --task-id 't 1'" in to_go_on("t 1")
    assert again("tasks", "resume", "t-1") == "replan tasks resume t-1 --db x.db", "it has no such option"


@pytest.mark.parametrize(
    ("key", "printed"),
    [
        pytest.param("env:MY_KEY", " --api-key env:MY_KEY", id="in the environment"),
        pytest.param("file:a key.txt", " --api-key 'file:a key.txt'", id="in a file"),
        pytest.param("sk-hush", "", id="itself"),
        pytest.param(None, "", id="none"),
    ],
)
def test_the_command_to_resume_names_the_place_of_the_key_and_never_the_key(
    key: str | None, printed: str
) -> None:
    assert carried_key(key) == key
    assert again("tasks", "resume", "t-1") == f"replan tasks resume t-1{printed}"
    assert again("tasks", "show", "t-1") == "replan tasks show t-1"


def test_every_command_goes_to_the_same_database_with_the_same_configuration() -> None:
    carried_db("sqlite:///x.db")
    carried_config(Path("a b.toml"))
    carried_key("env:K")
    where = "--db sqlite:///x.db --config 'a b.toml'"
    assert again("tasks", "show", "t-1") == f"replan tasks show t-1 {where}"
    assert again("tasks", "resume", "t-1") == f"replan tasks resume t-1 {where} --api-key env:K"
