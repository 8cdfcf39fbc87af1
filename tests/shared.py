"""What all test processes of a run share: a folder, and the servers that live in it until the run is over."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_VARIABLE = "REPLAN_TESTS_SHARED"
_SHORT = Path("/tmp")
"""A socket's path has to be short."""


def begin() -> None:
    """Before any other test process is started."""
    folder = Path(tempfile.mkdtemp(prefix="rpt", dir=_SHORT if _SHORT.is_dir() else None))
    folder.chmod(0o755)  # a server of another user lives in it
    (folder / "pid").write_text(str(os.getpid()))
    os.environ[_VARIABLE] = str(folder)


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


def is_over(folder: Path) -> bool:
    """Whether the run is over whose folder, of some name, this is; also if it was killed."""
    try:
        os.kill(int((folder.parent / "pid").read_text()), 0)
    except (OSError, ValueError):
        return True
    return False
