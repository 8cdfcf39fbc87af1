"""Runs code given by another process, within limits. A program of its own: it imports nothing of Replan.

Standard input: one JSON object. What the code prints goes to standard output. The answer, a JSON object, goes to the file
named on the command line, whose descriptor is opened before the limits take hold.
"""

from __future__ import annotations

import ast
import ctypes
import json
import os
import random
import resource
import stat
import struct
import sys
import traceback
from typing import Any

NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000


def main() -> int:
    order = json.load(sys.stdin)
    answer = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    isolated = _isolate(order)
    said: dict[str, object] = {"isolated": isolated}
    code = 0
    try:
        said["result"] = _run(order["code"], order["input"])
        text = json.dumps(said, allow_nan=False)
    except BaseException as error:  # noqa: BLE001 - code may raise what it likes
        said.pop("result", None)
        said["error"] = _in_words(error)
        said["begun"] = not isinstance(error, _NotBegun)
        text, code = json.dumps(said), 3
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(answer, data) :]
        os._exit(code)  # neither threads of the code nor what it registered for the end hold this up


class _NotBegun(Exception):
    pass


def _run(code: str, given: object) -> object:
    """What the code puts into `result`, or the value of its last line if that is an expression."""
    try:
        tree = ast.parse(code, "<code>")
        last = tree.body[-1] if tree.body else None
        ending = None
        if isinstance(last, ast.Expr):
            tree.body.pop()
            ending = compile(ast.Expression(last.value), "<code>", "eval")
        whole = compile(tree, "<code>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _NotBegun(_in_words(error)) from None
    names: dict[str, object] = {"__name__": "__main__", "input": given}
    exec(whole, names)
    value = eval(ending, names) if ending is not None else None
    result = names.get("result", value)
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(result).__name__
        raise TypeError(
            f"the result (a {kind}) cannot be written as JSON: {error}; use dicts, lists, text, numbers"
        ) from None
    return result


def _in_words(error: BaseException) -> str:
    if isinstance(error, _NotBegun):
        return str(error)
    if isinstance(error, MemoryError):
        return "MemoryError: it needed more memory than it may have"
    line = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == "<code>":
            line = f"line {frame.lineno}: "
    if isinstance(error, SyntaxError):
        line = f"line {error.lineno}: "
        return f"{line}SyntaxError: {error.msg}"
    return f"{line}{type(error).__name__}: {error}"[:2000]


def _isolate(order: dict[str, Any]) -> dict[str, bool]:
    """Put the limits in force, and what else the system allows; says which of these it did."""
    libc = ctypes.CDLL(None, use_errno=True)
    root = os.geteuid() == 0
    user = 0 if root else NEWUSER
    _die_with_parent(libc)
    wanted = NEWPID | (0 if order["network"] else NEWNET)
    spaces = libc.unshare(user | wanted) == 0
    if spaces:
        _become_init(libc)
    own_user = root and _drop_root(libc)
    _die_with_parent(libc)  # forgotten with every change of process and user
    own_files = _own_files_only(libc, os.getcwd())
    for name, most in order["limits"].items():
        limit = getattr(resource, name, None)
        if limit is None:
            continue
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return {
        "network": spaces and not order["network"],
        "files": own_files,
        "processes": spaces,
        "user": bool(own_user),
    }


def _die_with_parent(libc: ctypes.CDLL) -> None:
    """Be killed when the process that started this one ends, whatever ended it."""
    libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL


def _become_init(libc: ctypes.CDLL) -> None:
    """Go on as a child of the first process of the new process space: with that, all others end."""
    child = os.fork()
    if child:
        _end_as(os.waitpid(child, 0)[1])
    _die_with_parent(libc)
    child = os.fork()
    if child:
        while True:
            ended, status = os.wait()
            if ended == child:
                _end_as(status)


def _end_as(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _drop_root(libc: ctypes.CDLL) -> bool:
    """Be a user that nobody else is, so that the limit of processes counts only these.

    Where others may not read Python's own files, one right of root is kept: to read.
    """
    keeps = not all(_open_to_others(place) for place in sys.path if os.path.exists(place))
    if keeps:
        libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    for user in (1_000_000_000 + random.SystemRandom().randrange(1_000_000_000), 65534):
        try:
            os.chown(".", user, user)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        except OSError:
            continue
        if keeps:
            head = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
            read = 1 << 2  # CAP_DAC_READ_SEARCH
            libc.capset(head, ctypes.create_string_buffer(struct.pack("=6I", read, read, read, 0, 0, 0)))
            libc.prctl(47, 2, 2, 0, 0)  # PR_CAP_AMBIENT_RAISE: programs that the code starts keep it too
        return True
    return False


def _open_to_others(place: str) -> bool:
    while True:
        mode = os.stat(place).st_mode
        if not mode & (stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH):
            return False
        above = os.path.dirname(place)
        if above == place:
            return True
        place = above


_READABLE = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"),
    *(
        "/etc/ld.so.cache",
        "/etc/localtime",
        "/etc/nsswitch.conf",
        "/etc/passwd",
        "/etc/group",
        "/etc/mime.types",
    ),
    *("/etc/fonts", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"),
)


def _own_files_only(libc: ctypes.CDLL, folder: str) -> bool:
    """Let this process, and all that it starts, change files below the folder only, and read those and Python's.

    Landlock, Linux 5.13 and later: https://docs.kernel.org/userspace-api/landlock.html
    """
    create, add, restrict = 444, 445, 446
    version = libc.syscall(create, None, ctypes.c_size_t(0), 1)
    if version < 1 or libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        return False
    execute, write_file, read_file, read_dir, refer, truncate = (1 << bit for bit in (0, 1, 2, 3, 13, 14))
    of_files = execute | write_file | read_file | (truncate if version >= 3 else 0)
    handled = of_files | read_dir | sum(1 << bit for bit in range(4, 13))  # remove and make, of every kind
    handled |= refer if version >= 2 else 0
    rules = libc.syscall(
        create, ctypes.create_string_buffer(struct.pack("=Q", handled)), ctypes.c_size_t(8), 0
    )
    if rules < 0:
        return False
    reading = execute | read_file | read_dir
    places = dict.fromkeys((*_READABLE, sys.prefix, sys.base_prefix, *sys.path), reading)
    places |= {folder: handled, "/dev/null": read_file | write_file}
    try:
        for place, rights in places.items():
            if not os.path.exists(place):
                continue
            opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
            rights &= handled if os.path.isdir(place) else of_files
            added = libc.syscall(
                add, rules, 1, ctypes.create_string_buffer(struct.pack("=Qi", rights, opened)), 0
            )
            os.close(opened)
            if added != 0:
                return False
        return bool(libc.syscall(restrict, rules, 0) == 0)
    finally:
        os.close(rules)


if __name__ == "__main__":
    sys.exit(main())
