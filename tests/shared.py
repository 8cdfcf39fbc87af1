"""What all test processes of a run share: a folder, and the servers that live in it until the run is over."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_VARIABLE = "REPLAN_TESTS_SHARED"


def begin() -> None:
    """Before any other test process is started."""
    folder = tempfile.mkdtemp(prefix="rpt", dir="/tmp")  # short: a socket's path is
    os.chmod(folder, 0o755)  # a server of another user lives in it
    os.environ[_VARIABLE] = folder


def end() -> None:
    """After the last one has ended. What goes on as long as its folder is there ends by this."""
    if folder := os.environ.pop(_VARIABLE, None):
        shutil.rmtree(folder, ignore_errors=True)


def folder(name: str) -> Path:
    """The folder of this name."""
    if _VARIABLE not in os.environ:  # used without pytest
        begin()
        atexit.register(end)
    found = Path(os.environ[_VARIABLE]) / name
    found.mkdir(exist_ok=True)
    return found
