"""What one exception of any library says of the connection: refused, lost, no answer in time, or a status.

Libraries are told by the names and fields of their exceptions, so that none has to be imported.
"""

from __future__ import annotations

import concurrent.futures
import errno
import os
import queue
import re
import ssl
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

_REFUSED = {
    "ConnectError",
    "ConnectTimeout",
    "ConnectTimeoutError",
    "PoolTimeout",
    "NewConnectionError",
    "ClientConnectorError",
    "EndpointConnectionError",
    "ServiceRequestError",
    "SMTPConnectError",
    "gaierror",
}
_LOST = {
    "TransportError",
    "NetworkError",
    "RemoteProtocolError",
    "ProtocolError",
    "RemoteDisconnected",
    "IncompleteRead",
    "IncompleteReadError",
    "ChunkedEncodingError",
    "ClientConnectionError",
    "ClientPayloadError",
    "ServiceResponseError",
    "ResponseStreamingError",
    "StreamLostError",
    "StreamResetError",
    "ConnectionFailure",
    "ConnectionTerminated",
    "ConnectionDoesNotExist",
    "ConnectionException",
    "AutoReconnect",
    "AdminShutdown",
    "CrashShutdown",
    "StatementCompletionUnknown",
    "TransactionResolutionUnknown",
    "BrokenResourceError",
    "ClosedResourceError",
    "EndOfStream",
    "BrokenExecutor",
    "WorkerLostError",
    "BadStatusLine",
    "TargetClosedError",
    "IMAP4.abort",
    "BadGateway",
    "InternalServerError",
    "ServiceUnavailable",
}
_TIMED_OUT = re.compile(
    r"(Time[Oo]ut|Time[Oo]utError|Time[Oo]utException|TimeoutExpired|TimedOut(Error|Exception)?"
    r"|DeadlineExceeded(Error)?|TimeLimitExceeded|TooSlowError)$"
)
_DISCONNECTED = re.compile(
    r"(ConnectionError|ConnectionClosed\w{0,40}|ConnectionLost(Error)?|ConnectionReset(Error)?|ConnectionAborted(Error)?"
    r"|Disconnected(Error)?)$"
)
_GRPC = {
    "UNAVAILABLE": "connection_lost",
    "DEADLINE_EXCEEDED": "timeout",
    "ABORTED": "connection_lost",
    "CANCELLED": "connection_lost",
    "INTERNAL": "connection_lost",
    "UNKNOWN": "connection_lost",
    "DATA_LOSS": "connection_lost",
}
_SQL_LOST = re.compile(r"08...|57P0[12]|40003")
"""SQL states: a connection exception, a server that shut down, a statement of which nobody knows the end."""
_DATABASE_ERRORS = frozenset({"Error", "DatabaseError", "InterfaceError", "OperationalError"})
"""Of the DB-API (PEP 249)."""
_ORACLE_LOST = re.compile(r"(ORA-(03113|03114|03135|12170|12537|12547|12571|25408)|DPY-4011|DPI-1080)\b")
_MYSQL_LOST = frozenset({1053, 2006, 2013, 2055, 4031})


_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})
_BROKEN_OFF = frozenset({errno.ENETRESET, errno.ENETDOWN, errno.EHOSTDOWN, errno.EIO, errno.ESTALE})
_CONNECTING = frozenset({"connect", "create_connection", "open_connection", "sock_connect", "_connect_sock"})
_TIMED_OUT_EXIT = 124
"""What `timeout` gives for a program that it had to end."""
_ENDED_BY_SIGNAL = range(129, 160)
"""What a shell gives for a program that a signal has ended: 128 and the signal's number."""
_OVER_SSH = 255
_CUT_OFF_EXITS = {
    "curl": (16, 18, 28, 52, 55, 56, 92, 95),
    "wget": (4,),
    **dict.fromkeys(("ssh", "autossh", "scp", "sftp", "slogin", "sshpass"), (_OVER_SSH,)),
    "rsync": (10, 12, 30, 35, _OVER_SSH),
    "psql": (2,),
}
"""Exit codes by which programs say that a connection was lost, or an answer did not come."""
_BETWEEN_WORDS = re.compile(r"""[\s;&|()`'"]+""")
MOST = 300
"""Exceptions that are looked at: one that carries more is no honest one."""
_DEEPEST = 4
Known = dict[int, str | None]
"""What was found of exceptions, by their ids: one that many others refer to is read once."""


def transport_kind(error: BaseException, known: Known | None = None, depth: int = 0) -> str | None:
    """How the connection failed, if it did; `refused` only where nothing can have been sent."""
    known = {} if known is None else known
    if id(error) not in known:
        known[id(error)] = None  # also where it leads back to itself
        kind = _kind(error, known, depth)
        if depth == _DEEPEST:  # what it carries was not read
            del known[id(error)]
            return kind
        known[id(error)] = kind
    return known[id(error)]


def _kind(error: BaseException, known: Known, depth: int) -> str | None:
    kind: Any = type(error)
    by_name = _by_name(kind)
    if by_name == "refused":
        return "refused"
    number = error.errno if isinstance(error, OSError) else None
    if number in _UNREACHABLE:  # a connection that stood may end so, too
        return "refused" if _while_connecting(error) else "connection_lost"
    if by_name == "timeout" or number == errno.ETIMEDOUT:
        return "timeout"
    if depth < _DEEPEST:
        inner = {transport_kind(one, known, depth + 1) for one in explanations(error)}
        if "refused" in inner and not inner & {"timeout", "connection_lost"}:
            return "refused"
    if by_name == "connection_lost" or number in _BROKEN_OFF or _cut_off(error):
        return "connection_lost"
    names = [kind.__name__ for kind in type(error).__mro__]
    if _of_database(error, names):
        return "connection_lost"
    if "CalledProcessError" in names:
        return _of_program(attribute(error, "returncode"), attribute(error, "cmd"))
    code = attribute(error, "code")
    if callable(code) and "RpcError" in names:
        try:
            return _GRPC.get(str(getattr(code(), "name", "")))
        except Exception:  # noqa: BLE001 - somebody else's method
            return None
    return None


@lru_cache(maxsize=256)
def _by_name(kind: Any) -> str | None:
    """What the class alone says."""
    names = [name for one in kind.__mro__ for name in (one.__name__, one.__qualname__)]
    if issubclass(kind, ConnectionRefusedError | ssl.SSLCertVerificationError) or _REFUSED.intersection(
        names
    ):
        return "refused"
    if issubclass(kind, TimeoutError | queue.Empty) or any(_TIMED_OUT.search(name) for name in names):
        return "timeout"
    if issubclass(kind, ConnectionError | EOFError | ssl.SSLError) or _LOST.intersection(names):
        return "connection_lost"
    return "connection_lost" if any(_DISCONNECTED.search(name) for name in names) else None


def _cut_off(error: BaseException) -> bool:
    """True of what ends a function in the midst of its work, unlike an error that it reports."""
    if isinstance(error, SystemExit):  # with words it is said by a program, as an error is
        return not isinstance(error.code, str)
    if isinstance(error, BaseExceptionGroup):
        return False  # its members say it
    return not isinstance(error, Exception) or isinstance(
        error, MemoryError | concurrent.futures.CancelledError
    )


def _while_connecting(error: BaseException) -> bool:
    """True if it was raised where a connection is made."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code.co_name in _CONNECTING


def _of_program(code: object, command: object) -> str | None:
    """What the exit code of a program says: of itself it is an answer, unless somebody has ended the program."""
    if not isinstance(code, int):
        return None
    if by := [name for name in _programs(command) if code in _CUT_OFF_EXITS.get(name, ())]:
        return "timeout" if "curl" in by and code == 28 else "connection_lost"
    if code == _TIMED_OUT_EXIT:
        return "timeout"
    return "connection_lost" if code < 0 or code in _ENDED_BY_SIGNAL else None


def _programs(command: object) -> set[str]:
    """The names of programs that a command may run: by itself, behind another (`sudo`, `env`), or in the text of a shell."""
    texts = command if isinstance(command, list | tuple) else (command,)
    words = {word for text in texts for word in _BETWEEN_WORDS.split(_written(text))}
    return {word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe") for word in words}


def _written(word: object) -> str:
    if isinstance(word, bytes):
        return word.decode(errors="replace")
    return str(word) if isinstance(word, str | os.PathLike) else ""


def _of_database(error: BaseException, names: list[str]) -> bool:
    """True if a database says that the connection was lost; its other errors are answers."""
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        if isinstance(state, str):
            return bool(_SQL_LOST.fullmatch(state))
    if attribute(error, "connection_invalidated") is True:  # SQLAlchemy's
        return True
    first = error.args[0] if isinstance(error.args, tuple) and error.args else None
    if not _DATABASE_ERRORS.isdisjoint(names) and _says_lost(error, first):
        return True
    if "OperationalError" not in names:
        return False
    home = type(error).__module__.partition(".")[0]
    return first in _MYSQL_LOST if isinstance(first, int) else home in ("psycopg", "psycopg2")


def _says_lost(error: BaseException, first: object) -> bool:
    """True if the number or the state by which a driver names its error is one of a lost connection."""
    if isinstance(first, str) and (_SQL_LOST.fullmatch(first) or _ORACLE_LOST.match(first)):
        return True
    return attribute(error, "errno") in _MYSQL_LOST


def explanations(error: BaseException) -> Iterator[BaseException]:
    """What the error was raised from, wraps or gathers: its arguments, members and fields, whatever they are called."""
    args = error.args if isinstance(error.args, tuple) else ()
    named = [attribute(error, name) for name in ("exceptions", "reason", "orig")]
    inner = (error.__cause__, *named, args, _fields(error))
    yield from islice((one for each in inner for one in _exceptions_in(each, depth=4)), MOST + 1)


def _fields(error: BaseException) -> list[Any]:
    try:
        return list(vars(error).values())
    except Exception:  # noqa: BLE001 - somebody else's class
        return []


def _exceptions_in(value: object, depth: int) -> Iterator[BaseException]:
    if isinstance(value, BaseException):
        yield value
    elif depth and isinstance(value, list | tuple | dict) and type(value) in (list, tuple, dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _exceptions_in(one, depth - 1)


def attribute(holder: object, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property may raise what it likes
        return None


def happened_after(status: int) -> Literal["no", "unknown"]:
    """What an answer with this status says of the request that it is to: whether what it asks for may have happened.

    The one place that knows (specification §5). Only 4xx but 408 says that it did not. A redirect says nothing of it, whatever it
    asks for: what sends one may have done all that it was asked for before.
    """
    return "no" if 400 <= status < 500 and status != 408 else "unknown"


_PASSING = frozenset({408, 409, 425, 429})


def status_passes(status: int) -> bool:
    """True if what answers with this status may well answer otherwise a little later."""
    return status in _PASSING or (500 <= status <= 599 and status != 501)


def status_of(error: BaseException) -> int | None:
    """The HTTP status of the answer that an error is about."""
    response = attribute(error, "response")
    for holder in (response, error):
        for name in ("status_code", "status", "code", "http_status"):
            value = attribute(holder, name)
            if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
                return int(value)
            least = 400 if name == "code" else 100  # a smaller code is a number of somebody's own
            if isinstance(value, int) and not isinstance(value, bool) and least <= value <= 599:
                return int(value)
    if isinstance(response, Mapping):  # botocore's
        about = response.get("ResponseMetadata")
        value = about.get("HTTPStatusCode") if isinstance(about, Mapping) else None
        if isinstance(value, int) and 100 <= value <= 599:
            return int(value)
    return None
