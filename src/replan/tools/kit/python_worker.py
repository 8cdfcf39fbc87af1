"""Runs code given by another process, within limits. A program of its own: it imports nothing of Replan.

Standard input: one JSON object. What the code prints goes to standard output. The answer goes line by line to the pipe
whose number stands on the command line: what isolates the code, that it begins, and what came of it. What was written
before the code began is beyond its reach; of the rest it may have written any.
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
from types import CodeType
from typing import Any

NEWUSER, NEWPID, NEWNET, NEWNS = 0x10000000, 0x20000000, 0x40000000, 0x20000


def main() -> int:
    order = json.load(sys.stdin)
    answer = int(sys.argv[1])
    os.set_inheritable(answer, False)
    _tell(answer, {"isolated": _isolate(order)})
    said: dict[str, object] = {}
    code = 0
    try:
        ready = _compiled(order["code"])
        _tell(answer, {"begun": True})
        said["result"] = _run(*ready, order["input"])
        text = json.dumps(said, allow_nan=False)
    except BaseException as error:  # noqa: BLE001 - code may raise what it likes
        text, code = json.dumps({"error": _in_words(error)}), 3
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        _write(answer, text)
        os._exit(code)  # neither threads of the code nor what it registered for the end hold this up


def _tell(answer: int, said: dict[str, object]) -> None:
    _write(answer, json.dumps(said))


def _write(answer: int, text: str) -> None:
    data = text.encode("utf-8", "replace") + b"\n"
    while data:
        data = data[os.write(answer, data) :]


class _NotBegun(Exception):
    pass


def _compiled(code: str) -> tuple[CodeType, CodeType | None]:
    """The code, and its last line by itself if that is an expression."""
    try:
        tree = ast.parse(code, "<code>")
        last = tree.body[-1] if tree.body else None
        ending = None
        if isinstance(last, ast.Expr):
            tree.body.pop()
            ending = compile(ast.Expression(last.value), "<code>", "eval")
        return compile(tree, "<code>", "exec"), ending
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _NotBegun(_in_words(error)) from None


def _run(whole: CodeType, ending: CodeType | None, given: object) -> object:
    """What the code puts into `result`, or the value of its last line."""
    names: dict[str, object] = {"__name__": "__main__", "input": given}
    value: object = None
    try:
        exec(whole, names)
        value = eval(ending, names) if ending is not None else None
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    result = names.get("result", value)
    try:
        json.loads(json.dumps(result, allow_nan=False), object_pairs_hook=_each_key_once)
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(result).__name__
        raise TypeError(
            f"the result (a {kind}) cannot be written as JSON: {error}; use dicts, lists, text, numbers"
        ) from None
    return result


def _each_key_once(pairs: list[tuple[str, object]]) -> None:
    """JSON has keys of text only: of 1 and "1" in one dict just one would be left."""
    names = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f'two keys of a dict are both written "{name[:80]}"')
        names.add(name)


def _in_words(error: BaseException) -> str:
    if isinstance(error, _NotBegun):
        return str(error)
    if isinstance(error, MemoryError):
        return "MemoryError: it needed more memory than it may have"
    if isinstance(error, SystemExit):
        return f"SystemExit: {error.code}"[:2000]
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
    read_only = spaces and not root and _read_only_elsewhere(libc, os.getcwd())
    if spaces:
        _become_init(libc)
    own_user = root and _drop_root(libc)
    if not root:
        _drop_rights(libc)
    _die_with_parent(libc)  # forgotten with every change of process and user
    own_files = _own_files_only(libc, os.getcwd()) and (
        own_user or read_only or _no_changes_of_metadata(libc)
    )
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


def _drop_rights(libc: ctypes.CDLL) -> None:
    """Give up what a space of users of one's own allows, such as to mount anew what was made read-only."""
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    head = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
    libc.capset(head, ctypes.create_string_buffer(struct.pack("=6I", 0, 0, 0, 0, 0, 0)))


def _read_only_elsewhere(libc: ctypes.CDLL, folder: str) -> bool:
    """Mount all but the folder read-only, in a space of mounts of one's own: rights, times and attributes of files stay
    as they are, which Landlock does not see to. Linux 5.12 and later.
    """
    recursive, here, set_attributes, private = 0x8000, -100, 442, 1 << 18
    if libc.unshare(NEWNS) != 0:
        return False
    place = folder.encode()

    def changed(path: bytes, add: int, take: int, flags: int) -> bool:
        attributes = ctypes.create_string_buffer(struct.pack("=QQQQ", add, take, private, 0))
        return bool(libc.syscall(set_attributes, here, path, flags, attributes, ctypes.c_size_t(32)) == 0)

    if libc.mount(place, place, None, 0x1000, None) != 0:  # MS_BIND: a mount of its own
        return False
    if not (changed(b"/", 1, 0, recursive) and changed(place, 0, 1, 0)):  # MOUNT_ATTR_RDONLY
        return False
    os.chdir(folder)  # into the new mount
    return True


_METADATA = {
    # chmod fchmod chown fchown lchown utime setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr utimes
    # fchownat futimesat fchmodat utimensat fchmodat2 setxattrat removexattrat, file_setattr
    "x86_64": (0xC000003E, (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280)),
    "aarch64": (0xC00000B7, (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88)),
}
_METADATA_EVERYWHERE = (452, 463, 466, 469)
_IO_URING = (425, 426, 427)
"""It carries out calls past a filter of calls."""


def _no_changes_of_metadata(libc: ctypes.CDLL) -> bool:
    """Refuse, by a filter of system calls, to change the rights, times and attributes of any file (seccomp)."""
    known = _METADATA.get(os.uname().machine)
    if known is None or libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        return False
    machine, numbers = known
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, refuse = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ERRNO with EPERM
    rules = [(load, 0, 0, 4), (equal, 1, 0, machine), (give, 0, 0, refuse), (load, 0, 0, 0)]
    rules += [
        (at_least, 0, 1, 0x40000000),
        (give, 0, 0, refuse),
    ]  # x32, whose calls have numbers of their own
    for number in (*numbers, *_METADATA_EVERYWHERE, *_IO_URING):
        rules += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    rules.append((give, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    program = struct.pack("@HP", len(rules), ctypes.addressof(code))
    return bool(libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) == 0)  # PR_SET_SECCOMP, filter


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
