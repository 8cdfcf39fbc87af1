"""`replan config show|check`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from replan.cli.terminal import options
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.terminal import Out, own_stdout, say, warn

if TYPE_CHECKING:
    from replan.config import Settings

config_app = typer.Typer(
    name="config",
    help="Show and check the configuration.",
    cls=Listed,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@config_app.command()
def show(config: options.Config = None, json: options.Json = False) -> None:
    """Print the merged configuration, each value with its origin, secrets masked."""
    from replan.config import as_json, as_toml, load_settings

    loaded = load_settings(config, env=os.environ, cwd=Path.cwd())
    with own_stdout() as out:
        for warning in loaded.warnings:
            warn(warning)
        if json:
            out.json({"settings": as_json(loaded), "files": [str(file) for file in loaded.files]})
        else:
            out.line(as_toml(loaded).rstrip("\n"))


@config_app.command()
def check(config: options.Config = None, json: options.Json = False) -> None:
    """Say whether the configuration can be used, and what is wrong with it."""
    from replan.config import Settings, load_settings
    from replan.errors import ConfigError

    with own_stdout() as out:
        try:
            loaded = load_settings(config, env=os.environ, cwd=Path.cwd())
        except ConfigError as error:
            if json:
                out.json({"ok": False, "problems": _lines(str(error)), "warnings": [], "files": []})
                raise typer.Exit(error.exit_code) from None
            raise
        if json:
            _as_json(out, loaded.warnings, [str(file) for file in loaded.files])
            return
        for warning in loaded.warnings:
            warn(warning)
        files = ", ".join(str(file) for file in loaded.files) or "no file, defaults only"
        defaults = Settings()
        changed = sum(_at(loaded.settings, key) != _at(defaults, key) for key in loaded.origins)
        say(
            f"ok: {files}; {changed} {'value differs' if changed == 1 else 'values differ'} from the defaults"
        )


def _at(settings: Settings, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


def _as_json(out: Out, warnings: tuple[str, ...], files: list[str]) -> None:
    out.json({"ok": True, "problems": [], "warnings": list(warnings), "files": files})


def _lines(message: str) -> list[str]:
    head, *rest = message.split("\n")
    return [line.removeprefix("- ") for line in rest] or [head]
