"""A folder that nothing leads out of: every name is opened one by one, and links are not followed."""

from __future__ import annotations

import contextlib
import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from replan.errors import InputError, ToolCallError
from replan.tools.functions.context import current
from replan.tools.names import nearest

_DEEPEST = 64
_FOLDER = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)


class Found(NamedTuple):
    path: str
    """Below the root, with `/`."""
    status: os.stat_result


class Root:
    """A folder on disk. Paths given to it are text with `/`, relative to it; `.` is the folder itself.

    Each part of a path is opened relative to the folder before it (openat, O_NOFOLLOW), so that neither `..`, nor a
    symbolic link, nor somebody who swaps a folder for a link in the middle leads out. Raises `InputError` for a
    root that is no folder; the methods raise `ToolCallError` that says what is wrong with a path.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if os.open not in os.supports_dir_fd:
            raise InputError(
                "files under a root need a system that opens files relative to a folder (not Windows)"
            )
        self.path = Path(folder).expanduser().resolve()
        if not self.path.is_dir():
            what = "is not a folder" if self.path.exists() else "does not exist; make it first"
            raise InputError(f"the folder {os.fspath(folder)!r} of files {what}")

    def parts(self, path: str) -> list[str]:
        """The names that a path consists of."""
        if "\0" in path:
            raise _bad(path, "contains a NUL character")
        if path.startswith("/"):
            inside = os.path.relpath(path, self.path)
            if inside == ".." or inside.startswith("../"):
                raise _bad(
                    path, "is outside of the folder that these tools work in; give a path relative to it"
                )
            path = inside
        names: list[str] = []
        for name in path.split("/"):
            if name == "..":
                if not names:
                    raise _bad(path, "leads out of the folder that these tools work in")
                names.pop()
            elif name not in ("", "."):
                names.append(name)
        if len(names) > _DEEPEST:
            raise _bad(path, f"is more than {_DEEPEST} folders deep")
        return names

    @contextlib.contextmanager
    def folder(self, names: list[str], *, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder that the names lead to; with `make`, missing ones are made."""
        at = self._open_root()
        try:
            for nth, name in enumerate(names):
                within = _as_stored(at, name)
                if make:
                    with contextlib.suppress(FileExistsError), _told("/".join(names[: nth + 1])):
                        os.mkdir(within, dir_fd=at)
                try:
                    below = os.open(within, _FOLDER, dir_fd=at)
                except OSError as error:
                    raise _why(error, at, names[: nth + 1], folder=True) from error
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)

    @contextlib.contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that a path lies in, and the path's last name."""
        names = self.parts(path)
        if not names:
            raise _bad(path, "is the folder itself; name something in it")
        with self.folder(names[:-1], make=make) as at:
            yield at, _as_stored(at, names[-1])

    def status(self, path: str) -> os.stat_result:
        """What a path is, by itself and not by what a link leads to."""
        names = self.parts(path)
        if not names:
            with self.folder([]) as at:
                return os.fstat(at)
        with self.parent(path) as (at, name):
            try:
                return os.stat(name, dir_fd=at, follow_symlinks=False)
            except OSError as error:
                raise _why(error, at, names) from error

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of an ordinary file: no folder, device, pipe or link."""
        with self.parent(path) as (at, name):
            names = self.parts(path)
            try:
                # A device is not even opened; what is put there in between is seen below.
                _ordinary(os.stat(name, dir_fd=at, follow_symlinks=False), path)
                opened = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
            except OSError as error:
                raise _why(error, at, names) from error
        try:
            _ordinary(os.fstat(opened), path)
        except BaseException:
            os.close(opened)
            raise
        return opened

    def walk(self, path: str = ".", *, deep: bool = True, hidden: bool = False) -> Iterator[Found]:
        """Everything below a folder in the order of names, folders before what is in them; links are not followed.

        `hidden`: also names that begin with a dot. What cannot be read, vanishes meanwhile or has a name that is no
        UTF-8 (which nobody could give back) is left out.
        """
        names = self.parts(path)
        with self.folder(names) as at:
            yield from self._below(at, names, deep, hidden)

    def _below(self, at: int, names: list[str], deep: bool, hidden: bool) -> Iterator[Found]:
        for name in sorted(os.listdir(at)):
            if current().cancelled:
                raise ToolCallError("the call was given up", kind="cancelled", happened="no")
            if (name.startswith(".") and not hidden) or not _sayable(name):
                continue
            try:
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
            except OSError:
                continue
            yield Found("/".join([*names, name]), status)
            if deep and stat.S_ISDIR(status.st_mode) and len(names) < _DEEPEST:
                with contextlib.suppress(OSError):
                    below = os.open(name, _FOLDER, dir_fd=at)
                    try:
                        yield from self._below(below, [*names, name], deep, hidden)
                    finally:
                        os.close(below)

    def _open_root(self) -> int:
        try:
            return os.open(self.path, _FOLDER)
        except OSError as error:
            text = f"the folder of these files cannot be opened: {error.strerror}"
            raise ToolCallError(text, kind="unavailable", happened="no") from error


def kind_of(status: os.stat_result) -> str:
    """`file`, `folder`, `link` or `special`."""
    mode = status.st_mode
    for test, word in ((stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link")):
        if test(mode):
            return word
    return "special"


def _ordinary(status: os.stat_result, path: str) -> None:
    kind = kind_of(status)
    if kind == "folder":
        raise _bad(path, "is a folder, not a file")
    if kind == "link":
        raise _bad(path, "is a symbolic link, which these tools do not follow")
    if kind == "special":
        raise _bad(path, "is a device, pipe or socket; only ordinary files can be used")


def _as_stored(at: int, name: str) -> str:
    """The name as it is on disk: the same text may be composed of other characters (Unicode NFC, NFD)."""
    if name.isascii():
        return name
    for form in (name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)):
        with contextlib.suppress(OSError, ValueError):
            os.stat(form, dir_fd=at, follow_symlinks=False)
            return form
    return name


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise failed(path, error) from error


def failed(path: str, error: OSError) -> ToolCallError:
    """What the system said about a path, without where the root is."""
    return ToolCallError(f"{path!r}: {error.strerror or type(error).__name__}", happened="no")


def _why(error: OSError, at: int, names: list[str], *, folder: bool = False) -> ToolCallError:
    path = "/".join(names)
    try:
        status = os.stat(_as_stored(at, names[-1]), dir_fd=at, follow_symlinks=False)
    except OSError:
        if not isinstance(error, FileNotFoundError):
            return failed(path, error)
        here = sorted(os.listdir(at))
        near = nearest(names[-1], here) or here[:5]
        where = "/".join(names[:-1]) or "."
        hint = f"; {where!r} has: {', '.join(near)}" if near else f"; {where!r} is empty"
        text = f"path: there is no {'folder' if folder else 'file'} {path!r}{hint}"
        return ToolCallError(text.encode("utf-8", "replace").decode(), happened="no")
    if stat.S_ISLNK(status.st_mode):
        return _bad(path, "is a symbolic link, which these tools do not follow")
    if folder and not stat.S_ISDIR(status.st_mode):
        return _bad(path, "is a file, not a folder")
    return failed(path, error)


def _sayable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bad(path: str, why: str) -> ToolCallError:
    return ToolCallError(f"the path {path!r} {why}", kind="parameter", happened="no")
