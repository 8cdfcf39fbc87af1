"""The commands of a group, each with the whole of its first sentence."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

_WHOLE = 1_000


class Listed(TyperGroup):
    """A group that cuts no sentence in its list: a long one goes on in the next line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in named
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
