"""Where tools that a program gives as objects may be found again, by another process."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Places(NamedTuple):
    """Of what a program has given."""

    specs: tuple[str, ...]
    unnamed: tuple[str, ...]
    """What no other process can have."""
    modules: tuple[str, ...]
    """Folders that their modules are imported from."""


def places_of(given: Iterable[Any]) -> Places:
    """SPECs as they are, and functions as `module:name` where they can be imported by that."""
    specs: list[str] = []
    unnamed: list[str] = []
    folders: list[str] = []
    for one in given:
        name = one if isinstance(one, str) else name_of(one)
        if name is None:
            unnamed.append(_words(one))
            continue
        specs.append(name)
        if not isinstance(one, str) and (folder := _folder_of(name)) is not None:
            folders.append(folder)
    return Places(*(tuple(dict.fromkeys(each)) for each in (specs, unnamed, folders)))


def name_of(value: Any) -> str | None:
    """`module:name` by which another process can import it; None for what is local, or a part of a program's main file."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    if getattr(getattr(found, "__spec__", None), "name", None) != module:
        return None  # loaded from a file under another name
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is value else None


def _folder_of(spec: str) -> str | None:
    """Where the module's package lies, if that is not where installed ones do."""
    top = spec.partition(":")[0].partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if not file:
        return None
    path = Path(file).absolute()
    folder = str(path.parent.parent if path.stem == "__init__" else path.parent)
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return None if folder in installed else folder


def _words(value: Any) -> str:
    kind = type(value)
    name = getattr(value, "__qualname__", None) or getattr(value, "name", None)
    return str(name)[:80] if isinstance(name, str) and name else f"a {kind.__module__}.{kind.__qualname__}"
