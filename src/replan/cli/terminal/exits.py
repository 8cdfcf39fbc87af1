"""What the exit codes mean, and how an error becomes one of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from replan.cli.terminal.terminal import report_error, say
from replan.errors import ReplanError

if TYPE_CHECKING:
    from replan.core.report.result import TaskResult

SUCCEEDED = 0
FAILED = 1
USAGE = 2
CANCELLED = 3
LIMIT = 4
WAITING = 5
INTERRUPTED = 130


def of_result(result: TaskResult) -> int:
    """The exit code that a task's end asks for."""
    return of_status(result.status, result.failure.kind if result.failure else "")


def of_status(status: str, failure_kind: str = "") -> int:
    """The exit code of a task's status; `failure_kind` tells a budget from other failures."""
    if status == "failed" and failure_kind in ("budget", "timeout"):
        return LIMIT
    return {"succeeded": SUCCEEDED, "cancelled": CANCELLED, "timed_out": LIMIT, "waiting": WAITING}.get(
        status, FAILED
    )


def of_error(error: BaseException, env: Mapping[str, str] = os.environ) -> int:
    """Tell the error in one message and give its exit code; the traceback only when debugging."""
    if debugging(env):
        import traceback

        say("".join(traceback.format_exception(error)).rstrip("\n"))
    if isinstance(error, ReplanError):
        report_error(str(error) or type(error).__name__)
        return error.exit_code
    report_error(f"unexpected {type(error).__name__}: {error}")
    if not debugging(env):
        say(
            "This is a fault of Replan or of something that it called. Please report it with the traceback: run the "
            "same command with REPLAN_DEBUG=1 to see that, and add the output of `replan doctor`."
        )
    return FAILED


def debugging(env: Mapping[str, str] = os.environ) -> bool:
    """Whether tracebacks are wanted."""
    return env.get("REPLAN_DEBUG", "") not in ("", "0")
