"""Variables of the environment in configuration values: `${VAR}`, `${env:VAR}`, `${VAR:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from replan.errors import InputError

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^{}])*))?\}")
_FOREIGN = re.compile(r"\$\{(?:input|command|config):[^}]*\}")


def expand(text: str, environ: Mapping[str, str], where: str, places: Mapping[str, str] | None = None) -> str:
    """The text with every variable replaced, once: what a variable holds is not expanded again.

    `places`: what `${workspaceFolder}` and `${userHome}` stand for, which editors write.

    A variable that is not set needs a default; an empty one is set, and with `:-` takes the default, as in a shell.
    `InputError` begins with `where`. Any other `$` stays as it is.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if default is None and places is not None and name in places:
            return places[name]
        held = environ.get(name)
        if held or (held is not None and default is None):
            return held
        if default is not None:
            return default
        raise InputError(
            f"{where}: the environment variable {name} is not set; set it, or give a default: ${{{name}:-…}}"
        )

    if foreign := _FOREIGN.search(text):
        raise InputError(
            f"{where}: {foreign[0]} is known to an editor only; use an environment variable: ${{NAME}}"
        )
    return _VARIABLE.sub(value, text)


def expanded(
    value: Any, environ: Mapping[str, str], where: str, places: Mapping[str, str] | None = None
) -> Any:
    """`expand` for every text in a JSON value; keys stay."""
    if isinstance(value, str):
        return expand(value, environ, where, places)
    if isinstance(value, list):
        return [expanded(item, environ, f"{where}[{n}]", places) for n, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: expanded(item, environ, f"{where}.{key}", places) for key, item in value.items()}
    return value
