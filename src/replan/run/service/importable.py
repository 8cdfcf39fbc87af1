"""Functions and classes by the names under which another process can import them."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from pathlib import Path
from typing import Any

from replan.errors import InputError


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


def folder_of(spec: str) -> str | None:
    """Where the package of a module lies, if that is not where installed ones do."""
    file = getattr(sys.modules.get(spec.partition(":")[0].partition(".")[0]), "__file__", None)
    if not file:
        return None
    path = Path(file).absolute()
    folder = str(path.parent.parent if path.stem == "__init__" else path.parent)
    return None if folder in {sysconfig.get_path(name) for name in sysconfig.get_path_names()} else folder


def imported(name: str) -> Any:
    """What a name of `importable` stands for; `InputError` says why it cannot be had here."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise InputError(f"{name} cannot be imported here: {type(error).__name__}: {error}") from error
    return found
