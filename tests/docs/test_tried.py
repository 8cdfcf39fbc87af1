"""The page of what was tried: its versions are those that the tests run with, its tests are there, and it leaves out no extra."""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

import pytest
from documents import ROOT

PAGE = ROOT / "docs" / "reference" / "tried.md"
LOCK = (ROOT / "locks" / "dev.txt").read_text("utf-8")
LOCKED = set(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK, re.MULTILINE))
"""Names and versions; there may be several of a name, by the version of Python."""
HEAD = ["", "real", "stand-in", "nothing was tried with", "tests"]
NO_OTHER_SIDE = {
    "all",
    "tools",
    "client",
    "serve",
    "discovery",
    "kit",
    "openapi",
    "remote",
    "tracing",
    "postgres",
}
"""Extras that are others together, or whose own side is ours: their packages stand in rows of what they speak."""


class Row(NamedTuple):
    what: str
    real: str
    stand_in: str
    untried: str
    tests: list[str]


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and cells != HEAD and set(cells[0]) != {"-"}:
            assert len(cells) == len(HEAD), line
            found.append(Row(*cells[:4], re.findall(r"`([^`]+)`", cells[4])))
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.what)
def test_each_row_says_what_was_there_and_by_which_tests(row: Row) -> None:
    assert row.real or row.stand_in or row.untried
    assert bool(row.tests) == bool(row.real or row.stand_in), "what was tried has tests, and nothing else has"
    for test in row.tests:
        assert (ROOT / test).is_file(), test


def test_versions_are_those_of_the_tests() -> None:
    named = re.findall(r"`([a-z0-9-]+)` (\d[\w.]*\w)", PAGE.read_text("utf-8"))
    assert len(named) > 20
    assert [one for one in named if one not in LOCKED] == []


def test_every_extra_is_in_it() -> None:
    """By one of its packages at least: who adds an extra says what it was tried against."""
    text = PAGE.read_text("utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for extra, packages in extras.items():
        named = [re.split(r"[\[<>=; ]", package)[0] for package in packages]
        assert extra in NO_OTHER_SIDE or any(f"`{name}`" in text for name in named), extra
