"""Names of a package that need a library which need not be installed: imported when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from replan.errors import InputError


def attribute(package: str, homes: Mapping[str, tuple[str, str]], name: str) -> Any:
    """What a package's `__getattr__` gives. `homes`: of each name the module, and what to install for it.

    `AttributeError` for a name that is not there, `InputError` for one whose library is missing.
    """
    home = homes.get(name)
    if home is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, needs = home
    try:
        return getattr(importlib.import_module(f"{package}.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("replan"):
            raise
        raise InputError(
            f"{name} needs the package {needs}, which is not installed: pip install {needs}"
        ) from error
