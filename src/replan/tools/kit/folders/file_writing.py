"""Tools that change the files under one folder."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypedDict

from replan.errors import ToolCallError
from replan.tools.functions.context import current
from replan.tools.functions.decorator import tool
from replan.tools.functions.files import File
from replan.tools.kit.folders.rooted import Root, failed, kind_of


class Written(TypedDict):
    path: str
    size: int


class Moved(TypedDict):
    path: str


class Deleted(TypedDict):
    path: str
    deleted: bool


def writing_tools(folder: Root) -> list[Callable[..., Any]]:
    """Each replaces a whole file or does nothing, but for appending, which may be cut off."""

    @tool(effect="repeatable", timeout=60)
    def write_file(path: str, text: str) -> Written:
        """Write a text to a file, in place of what it had; missing folders are made.

        Args:
            path: the file, such as reports/summary.md
            text: the whole new content
        """
        return _replace(folder, path, text.encode("utf-8", "replace"))

    @tool(effect="repeatable", timeout=60)
    def write_binary(path: str, data: File) -> Written:
        """Write bytes to a file, in place of what it had; missing folders are made.

        Args:
            path: the file, such as pictures/chart.png
            data: the whole new content, of any size: a reference to bytes in the output of a step, or a data: URL in base64
        """
        return _replace(folder, path, data)

    @tool(effect="once", timeout=60, errors_are_clean=False)
    def append_file(path: str, text: str) -> Written:
        """Add a text at the end of a file; the file and missing folders are made.

        Args:
            path: the file, such as log.txt
            text: what to add; end it with a line break
        """
        with folder.parent(path, make=True) as (at, name), _as_told(path):
            with contextlib.suppress(FileNotFoundError):
                _replaceable(os.stat(name, dir_fd=at, follow_symlinks=False), path)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, 0o666, dir_fd=at), "ab", buffering=0) as file:
                status = os.fstat(file.fileno())
                _replaceable(status, path)
                if status.st_nlink > 1:
                    raise _no(
                        f"the file {path!r} has another name elsewhere (a hard link), which would change too"
                    )
                _append(file.fileno(), text.encode("utf-8", "replace"), path)
                return {"path": path, "size": os.fstat(file.fileno()).st_size}

    @tool(effect="repeatable", timeout=60)
    def copy_file(source: str, destination: str) -> Written:
        """Copy a file, in place of what the destination had; missing folders are made.

        Args:
            source: the file to copy
            destination: the path of the copy
        """
        with os.fdopen(folder.open(source), "rb") as file:
            return _replace(folder, destination, iter(partial(file.read, 1 << 20), b""))

    @tool(effect="once", timeout=60)
    def move_file(source: str, destination: str) -> Moved:
        """Move or rename a file or folder; nothing may be at the destination yet.

        Args:
            source: the file or folder to move
            destination: its new path
        """
        kind = kind_of(folder.status(source))
        if kind not in ("file", "folder"):
            raise _no(f"the path {source!r} is a {kind}; only files and folders can be moved")
        with folder.parent(source) as (at, name), folder.parent(destination, make=True) as (to, new):
            try:
                if kind == "file":  # a link fails if there is something; a rename would replace it
                    os.link(name, new, src_dir_fd=at, dst_dir_fd=to, follow_symlinks=False)
                    try:
                        os.unlink(name, dir_fd=at)
                    except OSError:  # it stays where it was, under its old name alone
                        os.unlink(new, dir_fd=to)
                        raise
                elif _there(to, new):
                    raise FileExistsError
                else:
                    os.rename(name, new, src_dir_fd=at, dst_dir_fd=to)
            except FileExistsError as error:
                raise _no(f"there is something at the destination {destination!r} already") from error
            except OSError as error:
                raise failed(destination, error) from error
        return {"path": destination}

    @tool(effect="repeatable", timeout=60)
    def delete_file(path: str) -> Deleted:
        """Delete a file or an empty folder; one that is not there is deleted already.

        Args:
            path: the file or empty folder
        """
        try:
            with folder.parent(path) as (at, name):
                mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    os.rmdir(name, dir_fd=at)
                else:
                    os.unlink(name, dir_fd=at)
        except FileNotFoundError:
            return {"path": path, "deleted": False}
        except ToolCallError as error:
            if isinstance(error.__cause__, FileNotFoundError):  # its folder is not there either
                return {"path": path, "deleted": False}
            raise
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise _no(f"the folder {path!r} is not empty; delete what is in it first") from error
            raise failed(path, error) from error
        return {"path": path, "deleted": True}

    @tool(effect="repeatable", timeout=60)
    def make_folder(path: str) -> Moved:
        """Make a folder, with the folders above it; one that is there stays as it is.

        Args:
            path: the folder
        """
        with folder.folder(folder.parts(path), make=True):
            return {"path": path}

    return [write_file, write_binary, append_file, copy_file, move_file, delete_file, make_folder]


def _replace(folder: Root, path: str, content: bytes | Iterable[bytes]) -> Written:
    """Put the content into a new file beside, then give that the name: no reader sees a half of it."""
    with folder.parent(path, make=True) as (at, name), _as_told(path):
        mode = None
        with contextlib.suppress(FileNotFoundError):
            there = os.stat(name, dir_fd=at, follow_symlinks=False)
            _replaceable(there, path)
            mode = stat.S_IMODE(there.st_mode)
        temporary = f".{secrets.token_hex(8)}.part"
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=at)
        try:
            with os.fdopen(opened, "wb") as file:
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                for piece in (content,) if isinstance(content, bytes) else content:
                    if current().cancelled:
                        raise ToolCallError("the call was given up", kind="cancelled", happened="no")
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
                size = os.fstat(file.fileno()).st_size
            os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=at)
            raise
    return {"path": "/".join(folder.parts(path)), "size": size}


def _append(file: int, data: bytes, path: str) -> None:
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
        os.fsync(file)
    except OSError as error:
        text = f"{path!r}: {error.strerror}; {written:,} of {len(data):,} bytes were added"
        raise ToolCallError(text, happened="unknown" if written else "no") from error


def _replaceable(status: os.stat_result, path: str) -> None:
    if (kind := kind_of(status)) != "file":
        raise _no(f"the path {path!r} is a {kind}; only an ordinary file can be written")


def _there(at: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _as_told(path: str) -> Any:
    try:
        yield
    except OSError as error:
        raise failed(path, error) from error


def _no(text: str) -> ToolCallError:
    return ToolCallError(text, kind="parameter", happened="no")
