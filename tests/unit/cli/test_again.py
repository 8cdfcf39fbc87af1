"""Commands that are printed for copying."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replan.cli.terminal.again import again, carried_config, carried_db, carried_key


@pytest.fixture(autouse=True)
def nothing_given() -> Iterator[None]:
    yield
    carried_db(None), carried_config(None), carried_key(None)


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
