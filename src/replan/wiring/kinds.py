"""Scenes and workflows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from replan.config import Settings
from replan.kinds.library import Library

Paths = str | Path | Sequence[str | Path]
"""Files and folders."""


def open_kinds(settings: Settings, scenes: Paths = (), workflows: Paths = ()) -> Library:
    """The scenes and workflows of these files and folders, then of those that are configured; wherever the process goes to later."""
    section = settings.scenes
    return Library(
        [*_paths(scenes), *_paths(section.paths)],
        [*_paths(workflows), *_paths(section.workflows)],
        built_in=settings.orchestrator.enable_builtin_workflows,
    )


def _paths(given: Paths) -> list[Path]:
    several = [given] if isinstance(given, str | Path) else given
    return [Path(one).expanduser().absolute() for one in several]
