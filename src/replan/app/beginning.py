"""What this `Replan` begins tasks with, as their logs say it for whoever goes on with one elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replan.config import Settings
from replan.config.recorded import recorded
from replan.core.begun import Begun
from replan.core.secrets import text_without_secrets
from replan.run.service.importable import folder_of, importable
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
        if not isinstance(tool, str) and (folder := folder_of(name)) is not None:
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


def _words(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "name", None)
    kind = type(value)
    return name[:80] if isinstance(name, str) and name else f"{kind.__module__}.{kind.__qualname__}"
