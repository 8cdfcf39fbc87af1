"""Tools for text files, used by plan.json beside this file. No model is needed:

    replan run --plan examples/given_plan/plan.json --tools examples/given_plan/tools.py --evaluation steps

`plan.json` shows `for_each` (a step for each file), `actions` (calls side by side in one step), `when` (a step
that only runs if there is reason to), and references that pick from lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from replan import tool

NOTES = Path(__file__).parent / "notes"


@tool(effect="reads")
def list_notes() -> list[str]:
    """The names of all notes."""
    return sorted(path.name for path in NOTES.glob("*.txt"))


@dataclass(frozen=True)
class Count:
    name: str
    words: int
    todos: int


@tool(effect="reads")
def count(name: str) -> Count:
    """Count the words of a note, and the lines in it that begin with TODO."""
    if Path(name).name != name:
        raise ValueError(f"{name!r} is no name of a note")
    text = (NOTES / name).read_text(encoding="utf-8")
    return Count(name, len(text.split()), sum(line.startswith("TODO") for line in text.splitlines()))


@tool(effect="reads")
def total(numbers: list[int]) -> int:
    """The sum."""
    return sum(numbers)


@tool(effect="reads")
def longest(names: list[str], words: list[int]) -> str:
    """The name that goes with the largest number."""
    return max(zip(words, names, strict=True))[1]


@tool(effect="reads")
def open_todos(names: list[str]) -> list[str]:
    """Every TODO line of these notes."""
    lines = [line for name in names for line in (NOTES / name).read_text(encoding="utf-8").splitlines()]
    return [line.removeprefix("TODO").strip(" :") for line in lines if line.startswith("TODO")]


@tool(effect="reads")
def summary(words: int, longest: str, todos: int) -> str:
    """A sentence of it all."""
    return f"{words} words; the longest note is {longest}; {todos} open."
