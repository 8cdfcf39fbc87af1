"""The comparison: its pages are what the bench writes, and a row that is run again changes nothing else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from bench.conformance import pages
from bench.conformance.peers import PEERS
from bench.conformance.rows import BY_KEY, ROWS
from bench.conformance.running import Result
from documents import ROOT
from hypothesis import given
from hypothesis import strategies as st

DOCS = ROOT / "docs"
PEER = {peer.key: peer for peer in PEERS}
CELLS = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" |\\"), max_size=30).map(
    str.strip
)


def result(peer: str, row: str, said: str, option: str = "", *, passed: bool | None = True) -> Result:
    return Result(PEER[peer], row, option, said, passed)


def written(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*.md")}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copy(DOCS / "comparison.md", tmp_path)
    shutil.copytree(DOCS / "comparison", tmp_path / "comparison")
    return tmp_path


def test_the_pages_are_what_the_bench_writes_from_their_own_facts(copied: Path) -> None:
    before = written(copied)
    pages.write(copied, [], {}, keep=True)
    assert written(copied) == before
    assert {Path(name).stem for name in before} == {"comparison", *BY_KEY}


def test_a_row_that_is_run_again_on_one_framework_leaves_the_lines_of_the_others(copied: Path) -> None:
    before = written(copied)
    pages.write(copied, [result("replan", "C2", "paid 9 times", passed=False)], {"Replan": "9.9"}, keep=True)
    after = written(copied)
    assert {name for name in after if after[name] != before[name]} == {"comparison.md", "comparison/C2.md"}
    assert "| Replan |  | ✗ | paid 9 times |" in after["comparison/C2.md"]
    assert [line for line in before["comparison/C2.md"].splitlines() if "| Replan " not in line] == [
        line for line in after["comparison/C2.md"].splitlines() if "| Replan " not in line
    ]
    assert "| Replan | 9.9 |" in after["comparison.md"]


def test_without_keeping_only_what_was_run_is_in_the_table(tmp_path: Path) -> None:
    found = [
        result("replan", "R2", "at once"),
        result("langgraph", "R2", "late", passed=False),
        result("langgraph", "R2", "not at all", "an option", passed=None),
    ]
    pages.write(tmp_path, found, {"LangGraph": "1", "Replan": "2"}, keep=False)
    assert set(written(tmp_path)) == {"comparison.md", "comparison/R2.md"}
    (line,) = (
        line for line in written(tmp_path)["comparison.md"].splitlines() if "(comparison/R2.md)" in line
    )
    assert [cell.strip() for cell in line.split("|")[3:-1]] == ["✗ –", *"––––––", "✓"]


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_what_a_page_holds_is_read_back_as_it_was(said: list[tuple[str, str]]) -> None:
    lines = [pages.Line("LangGraph", option, "✓", text) for option, text in said]
    assert pages.lines_on(pages.page(ROWS[0], lines)) == lines


def test_what_the_readme_quotes_of_the_comparison_is_on_its_page() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    sign = {"pass": "✓", "FAIL": "✗"}
    quoted = re.findall(r"^ *(pass|FAIL) (\w[\w ]*?)(?: with (.*?))?: (.*)$", readme, re.MULTILINE)
    page = (DOCS / "comparison" / "C2.md").read_text("utf-8")
    assert len(quoted) >= 6
    assert [
        f"| {label} | {option} | {sign[how]} | {said} |" in page for how, label, option, said in quoted
    ] == [True] * len(quoted)
