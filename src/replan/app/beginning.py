"""What this `Replan` begins tasks with, as their logs say it for whoever goes on with one elsewhere."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replan.config import Settings
from replan.config.recorded import recorded
from replan.core.begun import Begun
from replan.core.secrets import text_without_secrets
from replan.wiring import Models


def begun_of(tools: Iterable[Any], settings: Settings, models: Models) -> Begun:
    """Of the tools that were given beside the settings. SPECs as they are, functions where they can be imported from."""
    named: dict[str, None] = {}
    unnamed: dict[str, None] = {}
    folders: dict[str, None] = {}
    for tool in tools:
        name = tool if isinstance(tool, str) else importable(tool)
        if name is None:
            unnamed[_words(tool)] = None
            continue
        named[text_without_secrets(name)] = None
        if not isinstance(tool, str) and (folder := _folder_of(name)) is not None:
            folders[folder] = None
    return Begun(
        tools=tuple(named),
        unnamed=tuple(unnamed),
        models=models.named(),
        unnamed_models=models.unnamed(),
        endpoint=models.endpoint,
        endpoint_has_password=models.endpoint_has_password,
        key_was_given=models.has_own_key,
        replay=None if models.replay is None else str(models.replay),
        config=recorded(settings),
        folder=str(Path.cwd()),
        modules=tuple(folders),
    )


def importable(value: Any) -> str | None:
    """`module:name` by which another process has it, too. None for what is local, or in a program's main file, which would
    run again if it were imported."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    if getattr(getattr(found, "__spec__", None), "origin", None) is None or "replan_tools_" in module:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is value else None


def _folder_of(spec: str) -> str | None:
    """Where the package of a module lies, if that is not where installed ones do."""
    file = getattr(sys.modules.get(spec.partition(":")[0].partition(".")[0]), "__file__", None)
    if not file:
        return None
    path = Path(file).absolute()
    folder = str(path.parent.parent if path.stem == "__init__" else path.parent)
    return None if folder in {sysconfig.get_path(name) for name in sysconfig.get_path_names()} else folder


def _words(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "name", None)
    kind = type(value)
    return name[:80] if isinstance(name, str) and name else f"{kind.__module__}.{kind.__qualname__}"
