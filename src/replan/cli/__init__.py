"""The command `replan`: one file a command group, everything heavy imported when a command needs it."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and leave with its exit code; errors are one message on stderr."""
    import sys

    try:
        from replan.cli.terminal.terminal import settle_streams

        settle_streams()
        from replan.cli.tree import app

        app(prog_name="replan")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        code = 130
    except Exception as error:  # noqa: BLE001 - the last frame: every error becomes a message and an exit code
        from replan.cli.terminal.exits import of_error

        code = of_error(error)
    from replan.cli.terminal.terminal import finish_streams

    finish_streams()
    if loop := sys.modules.get("replan.cli.terminal.loop"):
        loop.leave(code)
    sys.exit(code)
