"""The tests of the how-to about tests pass as they are written, and its table names what is asked for."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT, blocks_of

from replan.testing.script import SCHEMA_NAMES

PAGE = ROOT / "docs" / "how-to" / "testing.md"


@pytest.mark.parametrize("block", blocks_of(PAGE, "python"), ids=lambda block: f"line {block.line}")
def test_a_program_of_the_page_runs_and_its_tests_pass(
    block: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "of_the_page"}
    exec(compile(block.text, f"{PAGE.name}:{block.line}", "exec"), names)
    for name, value in list(names.items()):
        if name.startswith("test_") and not inspect.signature(value).parameters:
            value()


def test_those_with_fixtures_pass_and_one_without_a_recording_says_how_to_make_it(tmp_path: Path) -> None:
    files = [
        block for block in blocks_of(PAGE, "python") if re.search(r"^def test_\w+\(\w", block.text, re.M)
    ]
    assert len(files) == 2
    for number, block in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(block.text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_replan", "-p", "no:asyncio"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "make one with --replan-record" in done.stdout


def test_the_page_names_every_answer_that_may_be_asked_for() -> None:
    text = PAGE.read_text("utf-8")
    assert [name for name in SCHEMA_NAMES if f"`{name}`" not in text] == []
