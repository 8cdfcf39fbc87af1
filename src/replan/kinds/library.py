"""The scenes and workflows of one Replan: what its files have now, and what they had last where they are broken."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from replan.core.kinds.known import NOTHING, Known
from replan.core.kinds.scene import ROLES, Scene
from replan.core.kinds.workflow import Workflow
from replan.kinds.folders import MOST_FILES, Found, found_in
from replan.kinds.texts import SCENE_FILES, WORKFLOW_FILES, Wrong, scene_of, text_of, workflow_of

LOOK_SECS = 1.0
"""So often at most it is looked whether files have changed, and only when somebody asks."""
_PART_OF = "scene.md"
"""In a folder with such a file the others are its parts, by the names of their roles."""
T = TypeVar("T", Scene, Workflow)
log = logging.getLogger("replan")


class _Read(NamedTuple, Generic[T]):
    """What a file had when it was read."""

    stamp: tuple[int, ...]
    value: T | None
    problems: tuple[str, ...] = ()


class Library:
    """`ports.Kinds` over files. Nothing is read before it is asked for."""

    def __init__(
        self,
        scenes: Sequence[Path] = (),
        workflows: Sequence[Path] = (),
        *,
        built_in: bool = True,
        look_secs: float = LOOK_SECS,
    ) -> None:
        self._paths = (tuple(scenes), tuple(workflows))
        self._built_in = built_in
        self._look_secs = look_secs
        self._scenes: dict[Path, _Read[Scene]] = {}
        self._workflows: dict[Path, _Read[Workflow]] = {}
        self._known: Known | None = None
        self._looked = 0.0
        self._lock = threading.Lock()

    def at_hand(self) -> Known | None:
        """What there is, where no file has to be looked at for it."""
        fresh = not any(self._paths) or time.monotonic() - self._looked < self._look_secs
        return self._known if fresh else None

    def scenes_at_hand(self) -> Known | None:
        """The same where only scenes matter: none of them is built in."""
        return self.at_hand() if self._paths[0] else self._known or NOTHING

    async def current(self) -> Known:
        """What there is now."""
        known = self.at_hand()
        return known if known is not None else await asyncio.to_thread(self.look)

    def look(self, *, silent: bool = False) -> Known:
        """The same, read here and now. `silent`: whoever asks tells himself of what is wrong."""
        with self._lock:
            if (known := self.at_hand()) is not None:
                return known
            found = self._read()
            before = () if self._known is None else self._known.problems
            for problem in found.problems:
                if problem not in before and not silent:
                    log.warning("%s", problem)
            self._known, self._looked = found, time.monotonic()
            return found

    def _read(self) -> Known:
        problems: list[str] = []
        sources: dict[str, str] = {}
        scenes: _Named[Scene] = _Named("scene", sources, problems)
        workflows: _Named[Workflow] = _Named("workflow", sources, problems)
        for path, scene in _values(_scene_files(self._paths[0]), self._scenes, _scene, problems):
            scenes.put(scene.task_type, scene, str(path))
        for path, workflow in _values(_workflow_files(self._paths[1]), self._workflows, _workflow, problems):
            workflows.put(workflow.workflow_id, workflow, str(path))
        for one in built_in() if self._built_in else ():
            if not workflows.has(one.workflow_id):  # whoever has one of the same name means that
                workflows.put(one.workflow_id, one, "built in")
        return Known(scenes.found, workflows.found, tuple(problems), sources)


class _Named(Generic[T]):
    """What was found of one kind, by name: no two of which only the case differs."""

    def __init__(self, what: str, sources: dict[str, str], problems: list[str]) -> None:
        self.found: dict[str, T] = {}
        self._what, self._sources, self._problems = what, sources, problems
        self._folded: dict[str, str] = {}

    def has(self, name: str) -> bool:
        return name.casefold() in self._folded

    def put(self, name: str, value: T, place: str) -> None:
        before = self._folded.setdefault(name.casefold(), name)
        if before in self.found:
            where = self._sources[f"{self._what} {before}"]
            self._problems.append(
                f"{place}: there is a {self._what} {before!r} already, in {where}: give one of them another name"
            )
            return
        self.found[name], self._sources[f"{self._what} {name}"] = value, place


class _File(NamedTuple):
    """What one scene or workflow is read from."""

    path: Path
    stamp: tuple[int, ...]
    problem: str = ""
    parts: tuple[Path, ...] = ()


def _values(
    listed: Iterator[_File],
    known: dict[Path, _Read[T]],
    read: Callable[[_File], T],
    problems: list[str],
) -> Iterator[tuple[Path, T]]:
    """What each file has, read where it has changed; the last good one where it is broken."""
    there: set[Path] = set()
    for at, file in enumerate(listed):
        if at == MOST_FILES:
            problems.append(f"{file.path}: more than {MOST_FILES:,} files; the rest is not read")
            break
        if file.path in there:  # several paths lead to it
            continue
        there.add(file.path)
        before = known.get(file.path)
        if before is None or before.stamp != file.stamp or file.problem:
            known[file.path] = before = _read_again(file, before, read)
        problems += before.problems
        if before.value is not None:
            yield file.path, before.value
    for path in known.keys() - there:
        del known[path]


def _read_again(file: _File, before: _Read[T] | None, read: Callable[[_File], T]) -> _Read[T]:
    last = None if before is None else before.value
    try:
        if file.problem:
            raise Wrong([f"{file.path}: {file.problem}"])
        return _Read(file.stamp, read(file))
    except Wrong as error:
        kept = ("; the last good one is used until it is mended",) if last is not None else ()
        told = tuple(f"{problem}{''.join(kept)}" for problem in error.problems)
        return _Read(file.stamp, last, told)


def _workflow_files(paths: Sequence[Path]) -> Iterator[_File]:
    for path in paths:
        for one in found_in(path, WORKFLOW_FILES):
            yield _File(one.path, one.stamp, one.problem)


def _scene_files(paths: Sequence[Path]) -> Iterator[_File]:
    for path in paths:
        found = list(found_in(path, SCENE_FILES))
        whole = {one.path.parent for one in found if one.path.name.lower() == _PART_OF}
        for one in found:
            if one.path.parent not in whole:
                if one.path.stem.lower() != "readme":
                    yield _File(one.path, one.stamp, one.problem)
            elif one.path.name.lower() == _PART_OF:
                yield _with_parts(one, [each for each in found if each.path.parent == one.path.parent])


def _with_parts(scene: Found, beside: Sequence[Found]) -> _File:
    parts = [one for one in beside if one.path.stem.lower() in ROLES]
    problem = next((f"{one.path.name}: {one.problem}" for one in parts if one.problem), scene.problem)
    stamp = (*scene.stamp, *(number for one in parts for number in one.stamp))
    return _File(scene.path, stamp, problem, tuple(one.path for one in parts))


def _scene(file: _File) -> Scene:
    parts = {path.stem.lower(): text_of(path) for path in file.parts}
    return scene_of(text_of(file.path), str(file.path), parts)


def _workflow(file: _File) -> Workflow:
    return workflow_of(text_of(file.path), str(file.path))


@lru_cache(maxsize=1)
def built_in() -> tuple[Workflow, ...]:
    """The workflows that ship with Replan."""
    folder = files("replan.kinds") / "built_in"
    texts = sorted(
        (one.name, one.read_text(encoding="utf-8")) for one in folder.iterdir() if one.name.endswith(".yaml")
    )
    return tuple(workflow_of(text, name, built_in=True) for name, text in texts)
