"""What one exception of any library says of the connection: refused, lost, no answer in time, or a status.

Libraries are told by the names and fields of their exceptions, so that none has to be imported.
"""

from __future__ import annotations

import errno
import re
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

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
}
_TIMED_OUT = re.compile(
    r"(Time[Oo]ut|Time[Oo]utError|Time[Oo]utException|TimeoutExpired|TimedOut(Error|Exception)?"
    r"|DeadlineExceeded(Error)?|TimeLimitExceeded|TooSlowError)$"
)
_DISCONNECTED = re.compile(
    r"(ConnectionError|ConnectionClosed\w*|ConnectionLost(Error)?|ConnectionReset(Error)?|ConnectionAborted(Error)?"
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
_MYSQL_LOST = frozenset({1053, 2006, 2013, 2055, 4031})


def transport_kind(error: BaseException, depth: int = 0) -> str | None:
    """How the connection failed, if it did; `refused` only where nothing can have been sent."""
    names = [kind.__name__ for kind in type(error).__mro__]
    if isinstance(error, ConnectionRefusedError | ssl.SSLCertVerificationError):
        return "refused"
    if _REFUSED.intersection(names):
        return "refused"
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "refused"
    if isinstance(error, TimeoutError) or any(_TIMED_OUT.search(name) for name in names):
        return "timeout"
    if isinstance(error, OSError) and error.errno == errno.ETIMEDOUT:
        return "timeout"
    if depth < 8:
        inner = {transport_kind(one, depth + 1) for one in explanations(error)}
        if "refused" in inner and not inner & {"timeout", "connection_lost"}:
            return "refused"
    if isinstance(error, ConnectionError | EOFError | ssl.SSLError) or _LOST.intersection(names):
        return "connection_lost"
    if any(_DISCONNECTED.search(name) for name in names) or _of_database(error, names):
        return "connection_lost"
    if "CalledProcessError" in names and (attribute(error, "returncode") or 0) < 0:
        return "connection_lost"  # the program was killed in the midst of it
    code = attribute(error, "code")
    if callable(code) and "RpcError" in names:
        try:
            return _GRPC.get(str(getattr(code(), "name", "")))
        except Exception:  # noqa: BLE001 - somebody else's method
            return None
    return None


def _of_database(error: BaseException, names: list[str]) -> bool:
    """True if a database says that the connection was lost; its other errors are answers."""
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        if isinstance(state, str):
            return bool(_SQL_LOST.fullmatch(state))
    if "OperationalError" not in names:
        return False
    first = error.args[0] if isinstance(error.args, tuple) and error.args else None
    home = type(error).__module__.partition(".")[0]
    return first in _MYSQL_LOST if isinstance(first, int) else home in ("psycopg", "psycopg2")


def explanations(error: BaseException) -> Iterator[BaseException]:
    """What the error was raised from, wraps or gathers: urllib's `reason`, SQLAlchemy's `orig`, arguments, members."""
    args = error.args if isinstance(error.args, tuple) else ()
    members = attribute(error, "exceptions")
    inner = (
        error.__cause__,
        attribute(error, "reason"),
        attribute(error, "orig"),
        *args,
        *(members if isinstance(members, list | tuple) else ()),
    )
    for one in inner:
        if isinstance(one, BaseException):
            yield one


def attribute(holder: object, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a property may raise what it likes
        return None


def status_of(error: BaseException) -> int | None:
    """The HTTP status of the answer that an error is about."""
    response = attribute(error, "response")
    for holder in (response, error):
        for name in ("status_code", "status", "code", "http_status"):
            value = attribute(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return int(value)
    if isinstance(response, Mapping):  # botocore's
        about = response.get("ResponseMetadata")
        value = about.get("HTTPStatusCode") if isinstance(about, Mapping) else None
        if isinstance(value, int) and 100 <= value <= 599:
            return int(value)
    return None
