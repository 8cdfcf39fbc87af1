"""The one table, for a terminal and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.conformance.notes import NOTES
from bench.conformance.rows import ROWS
from bench.conformance.running import Result

VERDICT = {True: "pass", False: "FAIL", None: "not run"}
SIGN = {True: "✓", False: "✗", None: "–"}
HEAD = Path(__file__).with_name("comparison_head.md")


def line_of(result: Result) -> str:
    option = f" with {result.option}" if result.option else ""
    return f"{result.peer.label}{option}: {result.said}"


def plain(found: Sequence[Result]) -> str:
    lines: list[str] = []
    for row in ROWS:
        of_row = [one for one in found if one.row == row.key]
        if not of_row:
            continue
        lines += ["", f"{row.ids}  {row.program}", f"{'':9}right: {row.right}"]
        lines += [f"{VERDICT[one.passed]:>8} {line_of(one)}" for one in of_row]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _earlier(page: str) -> tuple[str, dict[str, str]]:
    """What stands before the table of a page, and its lines by row."""
    head, _, rest = page.partition("| row |")
    lines = re.findall(r"^\| [A-Z]\d+\b.*$", rest, re.MULTILINE)
    return head.strip(), {line.split()[1]: line for line in lines}


def markdown(
    found: Sequence[Result], versions: Mapping[str, str], missing: Mapping[str, str], earlier: str = ""
) -> str:
    """The page: what was run, the table, the notes. Rows that were not run are taken over from an earlier page."""
    named = ", ".join(f"{label} ({said})" for label, said in versions.items())
    absent = "".join(f" {label}: {why}." for label, why in missing.items())
    head, kept = _earlier(earlier)
    lines = [head or HEAD.read_text().strip().format(versions=named + "." + absent), ""]
    lines += ["| row | program and what is right | peers | Replan |", "| --- | --- | --- | --- |"]
    for row in ROWS:
        of_row = [one for one in found if one.row == row.key]
        if not of_row:
            lines += [kept[row.key]] if row.key in kept else []
            continue
        peers = "<br>".join(
            _cell(f"{SIGN[one.passed]} {line_of(one)}") for one in of_row if one.peer.environment
        )
        ours = "<br>".join(
            _cell(f"{SIGN[one.passed]} {one.option + ': ' if one.option else ''}{one.said}")
            for one in of_row
            if not one.peer.environment
        )
        note = f" [note](#{row.key.lower()})" if row.key in NOTES else ""
        lines.append(
            f"| {row.ids}{note} | {_cell(row.program)}. *Right:* {_cell(row.right)} | {peers} | {ours or '–'} |"
        )
    lines += ["", "## Notes", ""]
    for key, note in NOTES.items():
        lines += [f"### {key}", "", note.strip(), ""]
    return "\n".join(lines).rstrip() + "\n"
