"""Protocols of other people's agents and pages, mounted in the HTTP service where the settings say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replan.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from replan.server.shared import Shared


def mount(app: FastAPI, shared: Shared) -> None:
    """What is not wanted is not imported. `ConfigError` where its packages are not here."""
    server = shared.settings.server
    if server.ag_ui:
        try:
            from replan.server.ag_ui import runs
        except ImportError as error:
            raise _lacking("ag_ui", "ag-ui", error) from None
        runs.mount(app)
    if server.a2a:
        try:
            from replan.server.a2a import mounted
        except ImportError as error:
            raise _lacking("a2a", "a2a", error) from None
        mounted.mount(app, shared)


def _lacking(key: str, extra: str, error: ImportError) -> ConfigError:
    return ConfigError(
        f"[server] {key} needs more packages ({error.name} is not here): pip install 'replan[{extra}]'"
    )
