"""docs/comparison.md with ✓ and ✗, and a page a row with what happened; read back, so that rows can be run one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from bench.conformance.notes import NOTES
from bench.conformance.peers import PEERS
from bench.conformance.row import Row
from bench.conformance.rows import ROWS
from bench.conformance.running import Result

SIGN = {True: "✓", False: "✗", None: "–"}
HEAD = Path(__file__).with_name("comparison_head.md")
PART = {
    **dict.fromkeys("RC", "Faults that users of other frameworks reported"),
    "E": "Effects: made once, and not on a guess",
    "S": "Success: what is called one, and what is kept",
}
"""The heading of a row, by its letter."""
SHORT = {"LLMCompiler (LlamaIndex)": "LLMCompiler"}


@dataclass(frozen=True)
class Line:
    """What one program of one framework did."""

    label: str
    option: str
    sign: str
    said: str


def lines_of(found: Iterable[Result]) -> dict[str, list[Line]]:
    """The lines by row."""
    lines: dict[str, list[Line]] = {}
    for one in found:
        line = Line(one.peer.label, one.option, SIGN[one.passed], one.said)
        lines.setdefault(one.row, []).append(line)
    return lines


def write(folder: Path, found: Sequence[Result], versions: Mapping[str, str], *, keep: bool) -> None:
    """Write the pages; `keep`: what was not run now stays as the pages have it."""
    lines, ran = lines_of(found), dict(versions)
    if keep:
        lines = {row.key: merged(lines.get(row.key, []), _read(folder, row)) for row in ROWS}
        ran = _versions(folder) | ran
    (folder / "comparison").mkdir(exist_ok=True)
    rows = [row for row in ROWS if lines.get(row.key)]
    for row in rows:
        _path(folder, row).write_text(page(row, lines[row.key]), "utf-8")
    (folder / "comparison.md").write_text(overview(rows, lines, ran), "utf-8")


def merged(now: Sequence[Line], earlier: Sequence[Line]) -> list[Line]:
    """The lines of now, and those of frameworks that were not run now; in the frameworks' order."""
    again = {line.label for line in now}
    order = [peer.label for peer in PEERS]
    both = [*(line for line in earlier if line.label not in again), *now]
    return sorted(both, key=lambda line: order.index(line.label))


def overview(rows: Sequence[Row], lines: Mapping[str, Sequence[Line]], versions: Mapping[str, str]) -> str:
    """The page with signs only."""
    labels = [peer.label for peer in PEERS]
    head = ("row", "program", *(SHORT.get(label, label) for label in labels))
    text = [HEAD.read_text("utf-8").strip()]
    for heading, of_part in groupby(rows, key=lambda row: PART[row.key[0]]):
        table = (
            (f"[{row.key}](comparison/{row.key}.md)", row.program, *_signs(lines[row.key], labels))
            for row in of_part
        )
        text += [f"## {heading}", _table(head, table)]
    text += ["## What ran", _table(("framework", "version"), versions.items())]
    return "\n\n".join(text) + "\n"


def page(row: Row, lines: Sequence[Line]) -> str:
    """What happened in one row, and what has to be said beside it."""
    text = [
        f"# {row.ids}: {row.program}",
        f"*Right:* {row.right}.",
        _table(
            ("framework", "with", "", "what happened"),
            ((line.label, line.option, line.sign, line.said) for line in lines),
        ),
    ]
    if row.key in NOTES:
        text.append(NOTES[row.key].strip())
    text.append(f"`python -m bench.conformance --row {row.key}` runs it. [All rows](../comparison.md)")
    return "\n\n".join(text) + "\n"


def _signs(lines: Sequence[Line], labels: Iterable[str]) -> list[str]:
    """One cell a framework: the sign of each of its programs."""
    return [" ".join(line.sign for line in lines if line.label == label) or "–" for label in labels]


def _path(folder: Path, row: Row) -> Path:
    return folder / "comparison" / f"{row.key}.md"


def _read(folder: Path, row: Row) -> list[Line]:
    path = _path(folder, row)
    return lines_on(path.read_text("utf-8")) if path.exists() else []


def lines_on(text: str) -> list[Line]:
    """The lines of a row's page."""
    return [Line(label, option, sign, said) for label, option, sign, said in _rows(text)]


def _versions(folder: Path) -> dict[str, str]:
    path = folder / "comparison.md"
    _, _, ran = (path.read_text("utf-8") if path.exists() else "").partition("## What ran")
    return {label: version for label, version, *_ in _rows(ran)}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_cells(*head), _cells(*["---"] * len(head)), *(_cells(*row) for row in rows)])


def _cells(*texts: str) -> str:
    written = (text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for text in texts)
    return f"| {' | '.join(written)} |"


def _rows(page: str) -> list[tuple[str, ...]]:
    """The cells of the first table of a page, as they were before they were written."""
    table = re.search(r"^\| -.*\n((?:\|.*\n?)+)", page, re.MULTILINE)
    found = []
    for line in table[1].splitlines() if table else []:
        cells = re.findall(r"((?:\\.|[^|\\])*)\|", line)
        found.append(tuple(re.sub(r"\\(.)", r"\1", cell.strip()) for cell in cells[1:]))
    return found
