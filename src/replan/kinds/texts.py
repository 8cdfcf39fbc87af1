"""One file as a scene or a workflow; whatever is wrong with it, with its lines."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from replan.core.ids import digest
from replan.core.kinds.read_scene import read_scene
from replan.core.kinds.read_workflow import read_workflow
from replan.core.kinds.scene import ROLES, Scene
from replan.core.kinds.workflow import Workflow
from replan.core.kinds.written import Fault, Faulty
from replan.files import read_bounded, read_json
from replan.kinds.folders import MOST_BYTES
from replan.kinds.marked import Marked, Unreadable, read_marked

SCENE_FILES = (".md", ".markdown")
WORKFLOW_FILES = (".yaml", ".yml", ".json")
_MOST_TOLD = 20
_NEAR = 0.85
"""So alike is a heading that was meant as another."""
_HALVES = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""Signs that JSON writes as two, and YAML does not."""


class Wrong(ValueError):
    """A file that cannot be used: each problem with its file and line."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


def text_of(path: Path) -> str:
    """What a file holds; `Wrong` where that is no text."""
    try:
        data = read_bounded(path, MOST_BYTES)
    except OSError as error:
        raise Wrong([f"{path}: it cannot be read: {error.strerror or error}"]) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Wrong([f"{path}: it is no text in UTF-8 (byte {error.start})"]) from None
    if "\x00" in text:
        raise Wrong([f"{path}: it is no text"])
    return text.replace("\r\n", "\n")


def scene_of(text: str, place: str, beside: Mapping[str, str] | None = None) -> Scene:
    """A scene: keys between two lines `---`, and guidance below, under a heading for each role or for all of them.

    `beside`: what other files have for each role.
    """
    lines = text.split("\n")
    if not lines or lines[0].rstrip() != "---":
        raise Wrong([f"{place}:1: a scene begins with a line `---`, its keys, and another line `---`"])
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise Wrong([f"{place}:1: the front matter has no end: write a line `---` below its keys"])
    marked = _marked("\n".join(lines[1:end]), place, 2)
    parts = parts_of(lines[end + 1 :])
    meant = [f"{place}:{at}: {text}" for at, text in _almost_headings(lines[end + 1 :], end + 2)]
    if meant:
        raise Wrong(meant)
    for role, more in (beside or {}).items():
        parts[role] = "\n\n".join(filter(None, (parts[role], more.strip())))
    written = digest("\x00".join([text, *(f"{role}\x01{more}" for role, more in (beside or {}).items())]))
    try:
        return read_scene({} if marked.value is None else marked.value, parts, written)
    except Faulty as error:
        raise Wrong(list(_told(error.faults, place, marked))) from None


def parts_of(lines: list[str]) -> dict[str, str]:
    """What stands under the heading of each role; what stands before the first such heading is for all of them."""
    found: dict[str, list[str]] = {role: [] for role in ROLES}
    now = list(ROLES)
    for line, heading in _with_headings(lines):
        if heading in found:
            now = [heading]
            continue
        for role in now:
            found[role].append(line)
    return {role: "\n".join(one).strip() for role, one in found.items()}


def _with_headings(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each line, and what it says as a heading of the first level; empty: it is none."""
    fenced = False
    for line in lines:
        fenced ^= line.lstrip().startswith("```")
        first = line.startswith("#") and not line.startswith("##") and not fenced
        yield line, line.strip().strip("#").strip().lower() if first else ""


def _almost_headings(lines: list[str], number: int) -> Iterator[tuple[int, str]]:
    """Headings that are a role's but for a slip of the pen: what stands below would go to all of them, and nobody would see it."""
    for at, (line, heading) in enumerate(_with_headings(lines), number):
        if heading and heading not in ROLES and (near := difflib.get_close_matches(heading, ROLES, 1, _NEAR)):
            meant = near[0].capitalize()
            told = f"{line.strip()[:100]!r} is no heading of a role; did you mean '# {meant}'? (One of another name has ## or more words.)"
            yield at, told


def workflow_of(text: str, place: str, *, built_in: bool = False) -> Workflow:
    """A workflow: YAML, or JSON."""
    marked = _json(text, place) if place.lower().endswith(".json") else _marked(text, place, 1)
    try:
        return read_workflow(marked.value, digest(text), built_in=built_in)
    except Faulty as error:
        raise Wrong(list(_told(error.faults, place, marked))) from None


def _json(text: str, place: str) -> Marked:
    """JSON with the lines of its parts, as far as they can be told: it is YAML, too, but for how it may be written."""
    try:
        value = read_json(text)
    except json.JSONDecodeError as error:
        raise Wrong([f"{place}:{error.lineno}: no valid JSON: {error.msg}"]) from None
    except ValueError as error:
        raise Wrong([f"{place}: no valid JSON: {error}"]) from None
    try:
        return Marked(value, read_marked(_HALVES.sub("?", text.replace("\t", "  "))).lines)
    except Unreadable:
        return Marked(value, {})


def _marked(text: str, place: str, first: int) -> Marked:
    try:
        return read_marked(text, first)
    except Unreadable as error:
        raise Wrong([f"{place}:{error.line}: {error}"]) from None


def _told(faults: list[Fault], place: str, marked: Marked) -> Iterator[str]:
    for fault in faults[:_MOST_TOLD]:
        yield f"{place}:{marked.line(fault.at)}: {fault.text}"
    if len(faults) > _MOST_TOLD:
        yield f"{place}: and {len(faults) - _MOST_TOLD} more"
