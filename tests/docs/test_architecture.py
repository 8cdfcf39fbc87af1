"""docs/architecture.md names every room, and says of each what its own first sentence says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "replan"
ROOMS = sorted(
    path.parent
    for top in ("core", "run", "reasoning", "cli", "tools", "llm")
    for path in (SOURCE / top).glob("*/__init__.py")
)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SOURCE)))
def test_a_room_stands_in_the_table_with_its_own_sentence(room: Path) -> None:
    told = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert told, "a folder says in its __init__.py what it is"
    sentence = told.partition("\n\n")[0].replace("\n", " ")
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"| `{room.name}` | {sentence} |" in page


def test_no_folder_is_a_street() -> None:
    counts = {
        str(folder.relative_to(SOURCE)): len(list(folder.glob("*.py")))
        for folder in [SOURCE, *SOURCE.rglob("*")]
        if folder.is_dir()
    }
    assert {name: count for name, count in counts.items() if count > 18} == {}


def test_no_two_files_of_tests_have_the_same_name() -> None:
    """Their modules have no package: of two of one name pytest runs the first, and the other is an error."""
    names = [path.name for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    assert sorted({name for name in names if names.count(name) > 1}) == []
