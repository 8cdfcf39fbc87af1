from __future__ import annotations

import errno
import http.client
import socket
import ssl
import subprocess
import urllib.error
from email.message import Message
from email.utils import formatdate
from typing import Any, get_args

import httpx2
import pytest

from replan.core.failures.faults import NOT_MADE, FaultKind, classify, in_doubt, may_retry, retry_after_secs
from replan.core.types import Fault, ToolSpec
from replan.errors import ToolCallError, UnresolvedReference

NOW = 1_000_000_000.0
REQUEST = httpx2.Request("GET", "http://x.test")


def caused(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


def answered(status: int, **headers: str) -> httpx2.HTTPStatusError:
    response = httpx2.Response(status, headers=headers, request=REQUEST)
    return httpx2.HTTPStatusError(f"status {status}", request=REQUEST, response=response)


def urllib_answered(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://x.test", status, "said no", Message(), None)


# The exceptions of libraries that are not installed here, by their names and bases.
RequestsError = type("RequestException", (OSError,), {})
RequestsConnectionError = type("ConnectionError", (RequestsError,), {})
RequestsTimeout = type("Timeout", (RequestsError,), {})
RequestsReadTimeout = type("ReadTimeout", (RequestsTimeout,), {})
RequestsConnectTimeout = type("ConnectTimeout", (RequestsConnectionError, RequestsTimeout), {})
RequestsChunked = type("ChunkedEncodingError", (RequestsError,), {})
RequestsHTTPError = type("HTTPError", (RequestsError,), {})
NewConnectionError = type("NewConnectionError", (Exception,), {})
MaxRetryError = type("MaxRetryError", (Exception,), {})
AioDisconnected = type("ServerDisconnectedError", (type("ClientConnectionError", (Exception,), {}),), {})
AioConnector = type("ClientConnectorError", (type("ClientOSError", (OSError,), {}),), {})
SdkConnectionError = type("APIConnectionError", (Exception,), {})
SdkTimeout = type("APITimeoutError", (SdkConnectionError,), {})


def requests_answered(status: int) -> BaseException:
    error = RequestsHTTPError(f"{status} said no")
    error.response = type("Response", (), {"status_code": status, "headers": {"retry-after": "7"}})()
    return error


def requests_refused() -> BaseException:
    inner = MaxRetryError("too many")
    inner.reason = NewConnectionError("refused")
    return RequestsConnectionError(inner)


def grpc_error(code: str) -> BaseException:
    status = type("StatusCode", (), {"name": code})()
    return type("AioRpcError", (type("RpcError", (Exception,), {}),), {"code": lambda self: status})("rpc")


@pytest.mark.parametrize(
    ("error", "kind", "category", "transient", "happened"),
    [
        # what the tool itself says
        (ValueError("bad city"), "tool", "tool_error", False, "no"),
        (KeyError("x"), "tool", "tool_error", False, "no"),
        (FileNotFoundError("nope"), "tool", "tool_error", False, "no"),
        (caused(RuntimeError("no such city"), KeyError("x")), "tool", "tool_error", False, "no"),
        # builtin
        (ConnectionRefusedError("no"), "refused", "external_error", True, "no"),
        (OSError(errno.ENETUNREACH, "unreachable"), "connection_lost", "external_error", True, "unknown"),
        (socket.gaierror("no such host"), "refused", "external_error", True, "no"),
        (ConnectionResetError("cut"), "connection_lost", "external_error", True, "unknown"),
        (BrokenPipeError("cut"), "connection_lost", "external_error", True, "unknown"),
        (EOFError(), "connection_lost", "external_error", True, "unknown"),
        (ssl.SSLEOFError("cut"), "connection_lost", "external_error", True, "unknown"),
        (TimeoutError(), "timeout", "external_error", True, "unknown"),
        (http.client.RemoteDisconnected("cut"), "connection_lost", "external_error", True, "unknown"),
        (http.client.IncompleteRead(b""), "connection_lost", "external_error", True, "unknown"),
        # urllib
        (urllib.error.URLError(ConnectionRefusedError()), "refused", "external_error", True, "no"),
        (urllib.error.URLError(TimeoutError()), "timeout", "external_error", True, "unknown"),
        (urllib.error.URLError(ConnectionResetError()), "connection_lost", "external_error", True, "unknown"),
        (urllib.error.URLError("unknown url type"), "tool", "tool_error", False, "no"),
        (urllib_answered(503), "http", "server_error", True, "unknown"),
        (urllib_answered(404), "http", "parameter_error", False, "no"),
        # httpx2
        (httpx2.ConnectError("no"), "refused", "external_error", True, "no"),
        (httpx2.ConnectTimeout("no"), "refused", "external_error", True, "no"),
        (httpx2.PoolTimeout("full"), "refused", "external_error", True, "no"),
        (httpx2.ReadTimeout("slow"), "timeout", "external_error", True, "unknown"),
        (httpx2.WriteTimeout("slow"), "timeout", "external_error", True, "unknown"),
        (httpx2.ReadError("cut"), "connection_lost", "external_error", True, "unknown"),
        (httpx2.RemoteProtocolError("cut"), "connection_lost", "external_error", True, "unknown"),
        (answered(400), "http", "parameter_error", False, "no"),
        (answered(401), "http", "external_error", False, "no"),
        (answered(408), "http", "external_error", True, "unknown"),
        (answered(425), "http", "external_error", True, "no"),
        (answered(429), "http", "external_error", True, "no"),
        (answered(500), "http", "server_error", True, "unknown"),
        (answered(503), "http", "server_error", True, "unknown"),
        # requests, aiohttp, SDKs, gRPC
        (requests_answered(502), "http", "server_error", True, "unknown"),
        (requests_answered(422), "http", "parameter_error", False, "no"),
        (requests_refused(), "refused", "external_error", True, "no"),
        (RequestsConnectionError("aborted"), "connection_lost", "external_error", True, "unknown"),
        (RequestsReadTimeout("slow"), "timeout", "external_error", True, "unknown"),
        (RequestsConnectTimeout("slow"), "refused", "external_error", True, "no"),
        (RequestsChunked("cut"), "connection_lost", "external_error", True, "unknown"),
        (AioDisconnected("cut"), "connection_lost", "external_error", True, "unknown"),
        (AioConnector("no"), "refused", "external_error", True, "no"),
        (SdkTimeout("slow"), "timeout", "external_error", True, "unknown"),
        (SdkConnectionError("cut"), "connection_lost", "external_error", True, "unknown"),
        (caused(SdkConnectionError("cut"), httpx2.ConnectError("no")), "refused", "external_error", True, "no"),
        (grpc_error("UNAVAILABLE"), "connection_lost", "external_error", True, "unknown"),
        (grpc_error("DEADLINE_EXCEEDED"), "timeout", "external_error", True, "unknown"),
        (grpc_error("INVALID_ARGUMENT"), "tool", "tool_error", False, "no"),
        # wrapped by the tool
        (caused(RuntimeError("failed"), httpx2.ReadTimeout("slow")), "timeout", "external_error", True, "unknown"),
        (caused(RuntimeError("failed"), answered(503)), "http", "server_error", True, "unknown"),
        # what a source says
        (ToolCallError("no"), "tool", "tool_error", False, "no"),
        (ToolCallError("no", kind="timeout"), "timeout", "external_error", True, "unknown"),
        (ToolCallError("no", kind="timeout", happened="no"), "timeout", "external_error", True, "no"),
        (ToolCallError("no", happened="unknown"), "tool", "tool_error", False, "unknown"),
        (ToolCallError("no", kind="http", status=503), "http", "server_error", True, "unknown"),
        (ToolCallError("no", kind="tool", status=404), "tool", "parameter_error", False, "no"),
        (ToolCallError("no", kind="unknown_tool"), "unknown_tool", "tool_error", False, "no"),
        (ToolCallError("no", kind="unavailable"), "unavailable", "external_error", True, "no"),
        (ToolCallError("no", kind="parameter"), "parameter", "parameter_error", False, "no"),
        (ToolCallError("no", kind="output"), "output", "tool_error", False, "unknown"),
        (UnresolvedReference("${a}", where="x"), "reference", "dependency_error", False, "no"),
    ],
    ids=lambda value: f"{type(value).__name__}: {value}"[:40] if isinstance(value, BaseException) else None,
)  # fmt: skip
def test_an_exception_is_classified_by_what_it_is(
    error: BaseException, kind: str, category: str, transient: bool, happened: str
) -> None:
    fault = classify(error, now=NOW)
    assert (fault.kind, fault.category, fault.transient, fault.happened) == (
        kind,
        category,
        transient,
        happened,
    )
    assert fault.message


def test_a_tool_whose_errors_are_not_clean_leaves_doubt() -> None:
    messy = ToolSpec(id="t", errors_are_clean=False)
    assert classify(ValueError("x"), messy).happened == "unknown"
    assert classify(ConnectionRefusedError(), messy).happened == "unknown"
    assert classify(ToolCallError("x", happened="no"), messy).happened == "no"


@pytest.mark.parametrize("kind", get_args(FaultKind))
def test_every_kind_has_a_category_and_an_outcome(kind: Any) -> None:
    fault = classify(ToolCallError("x", kind=kind))
    assert (fault.category == "unknown") is (
        kind in ("internal", "http", "in_doubt", "rejected", "duplicate")
    )
    assert (fault.happened == "no") is (kind in NOT_MADE or kind == "tool")


@pytest.mark.parametrize(
    ("effect", "honours_key", "fault", "retried", "doubtful"),
    [
        ("reads", False, {"transient": True, "happened": "unknown"}, True, False),
        ("repeatable", False, {"transient": True, "happened": "unknown"}, True, False),
        ("once", False, {"transient": True, "happened": "unknown"}, False, True),
        ("once", True, {"transient": True, "happened": "unknown"}, True, True),
        ("once", False, {"transient": True, "happened": "no"}, False, False),
        ("once", False, {"transient": False, "happened": "unknown"}, False, True),
        ("reads", False, {"transient": False, "happened": "no"}, False, False),
    ],
)
def test_code_repeats_only_what_bears_repeating(
    effect: Any, honours_key: bool, fault: dict[str, Any], retried: bool, doubtful: bool
) -> None:
    tool = ToolSpec(id="t", effect=effect, honours_key=honours_key)
    known = Fault(category="external_error", kind="timeout", message="x", **fault)
    assert may_retry(known, tool) is retried
    assert in_doubt(known, tool) is doubtful


@pytest.mark.parametrize(
    ("header", "secs"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("1.5", 1.5),
        (formatdate(NOW + 90, usegmt=True), 90.0),
        (formatdate(NOW + 90), 90.0),
        (formatdate(NOW - 90, usegmt=True), 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("9999999999", 9_999_999_999.0),
        ("9" * 400, 1e12),
        ("Mon, 99 Foo 2001 99:99:99 GMT", None),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date(header: str, secs: float | None) -> None:
    assert retry_after_secs(header, NOW) == secs
    assert classify(answered(429, **{"Retry-After": header}), now=NOW).retry_after == secs


def test_retry_after_is_found_whatever_its_case_and_a_date_needs_a_clock() -> None:
    assert classify(requests_answered(503), now=NOW).retry_after == 7.0
    assert retry_after_secs(formatdate(NOW, usegmt=True), None) is None
    assert classify(ToolCallError("x", kind="http", status=429, retry_after=3.0)).retry_after == 3.0


def test_an_exception_that_breaks_when_it_is_looked_at_is_still_a_fault() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        @property
        def response(self) -> Any:
            raise RuntimeError("no response")

    fault = classify(Hostile())
    assert (fault.kind, fault.message) == ("tool", "Hostile")
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).kind == "tool"


def test_the_message_names_the_class_where_that_is_half_of_it() -> None:
    assert classify(KeyError("city")).message == "KeyError: 'city'"
    assert classify(TimeoutError()).message == "TimeoutError"
    assert classify(ToolCallError("plain words")).message == "plain words"


# ── what an error says ────────────────────────────────────────────────────────

BOOK = ToolSpec(
    id="book",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "max_price": {"type": "number"}},
    },
)


def answered_with(status: int, body: Any, **headers: str) -> httpx2.HTTPStatusError:
    response = httpx2.Response(status, json=body, headers=headers, request=REQUEST)
    return httpx2.HTTPStatusError(f"status {status}", request=REQUEST, response=response)


def started(program: str) -> BaseException:
    with pytest.raises(FileNotFoundError) as caught:
        subprocess.run([program], check=True)
    return caught.value


def cloud_error(code: str, status: int) -> BaseException:
    """As a client of a large cloud raises it: the answer is a mapping."""
    error = type("ClientError", (Exception,), {})(f"An error occurred ({code}) when calling Get: no")
    error.response = {
        "Error": {"Code": code, "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return error


def named(name: str, text: str) -> BaseException:
    return type(name, (Exception,), {"__module__": "some_sdk"})(text)


@pytest.mark.parametrize(
    ("error", "category", "transient"),
    [
        # answers that say more than their status
        (answered_with(400, {"code": "ThrottlingException", "message": "Rate exceeded"}), "external_error", True),
        (answered_with(400, {"error": {"message": "The API key is not valid"}}), "external_error", False),
        (answered_with(400, {"error": {"code": "index_not_ready"}}), "external_error", True),
        (answered_with(400, {"message": "city is required"}), "parameter_error", False),
        (answered_with(403, {"message": "You have exceeded a rate limit"}), "external_error", True),
        (answered_with(424, {}), "external_error", False),
        (answered_with(429, {"error": {"code": "insufficient_quota"}}), "external_error", False),
        (answered_with(500, {"message": "parameter `limit` must be at most 100"}), "parameter_error", True),
        (answered_with(500, {"message": "max_price must be positive"}), "parameter_error", True),
        (answered_with(500, {"message": "price must be positive"}), "server_error", True),
        (answered_with(501, {}), "server_error", True),
        (ToolCallError("max-price must be at most 9", kind="http", status=500), "parameter_error", True),
        (ToolCallError("Throttling: slow down", kind="http", status=400), "external_error", True),
        # a status that is only told
        (RuntimeError("HTTP 429 Too Many Requests"), "external_error", True),
        (RuntimeError("the service answered with status code 503"), "server_error", True),
        (RuntimeError("HTTP 404 Not Found"), "parameter_error", False),
        (RuntimeError("HTTP 401 Unauthorized"), "external_error", False),
        (ToolCallError('{"status": 403, "title": "Forbidden"}'), "external_error", False),
        (cloud_error("ThrottlingException", 400), "external_error", True),
        (cloud_error("AccessDenied", 403), "external_error", False),
        (cloud_error("NoSuchKey", 404), "parameter_error", False),
        # something is missing on our side
        (ModuleNotFoundError("No module named 'pandas'"), "external_error", False),
        (caused(RuntimeError("it did not work"), ModuleNotFoundError("pandas")), "external_error", False),
        (PermissionError(13, "Permission denied"), "external_error", False),
        (ProcessLookupError(3, "No such process"), "external_error", False),
        (RuntimeError("/bin/sh: 1: ffmpeg: command not found"), "external_error", False),
        (started("surely-no-such-program"), "external_error", False),
        (FileNotFoundError(2, "No such file or directory: 'report.csv'"), "tool_error", False),
        (named("NoCredentialsError", "Unable to locate credentials"), "external_error", False),
        (named("AuthenticationError", "no"), "external_error", False),
        (named("RateLimitError", "no"), "external_error", True),
        (ToolCallError("Storage quota exceeded"), "external_error", False),
        (named("AioRpcError", "status = StatusCode.PERMISSION_DENIED"), "external_error", False),
        # the tool refuses a value
        (ValueError("bad city"), "parameter_error", False),
        (KeyError("city"), "parameter_error", False),
        (RuntimeError("bad city"), "parameter_error", False),
        (RuntimeError("the city is lovely"), "tool_error", False),
        (ValueError("the maxPrice is 7"), "parameter_error", False),
        (ValueError("invalid literal for int() with base 10: 'x'"), "tool_error", False),
        (ToolCallError("1 validation error for bookArguments\ncity\n  Field required"), "parameter_error", False),
        (TypeError("book() got an unexpected keyword argument 'note'"), "parameter_error", False),
        (TypeError("unhashable type: 'dict'"), "tool_error", False),
        # words of the tool's own trade
        (ToolCallError("Payment method card_1 not found"), "tool_error", False),
        (ToolCallError("payment amount does not add up"), "tool_error", False),
        (ToolCallError("the search timed out"), "server_error", True),
    ],
    ids=lambda value: f"{type(value).__name__}: {value}"[:60] if isinstance(value, BaseException) else None,
)  # fmt: skip
def test_what_an_error_says_tells_whose_fault_it_is(
    error: BaseException, category: str, transient: bool
) -> None:
    fault = classify(error, BOOK, now=NOW)
    assert (fault.category, fault.transient) == (category, transient)


@pytest.mark.parametrize(
    "text", ["HTTP 503 Service Unavailable", "HTTP 400 Bad Request", "rate limit exceeded"]
)
@pytest.mark.parametrize("clean", [True, False])
def test_what_an_error_says_is_no_proof_of_what_happened(text: str, clean: bool) -> None:
    tool = ToolSpec(id="t", errors_are_clean=clean)
    fault = classify(RuntimeError(text), tool)
    assert (fault.kind, fault.status) == ("tool", None)
    assert fault.happened == ("no" if clean else "unknown")
    assert not may_retry(fault, tool)


def test_an_answer_of_500_that_names_a_parameter_leaves_doubt_about_an_effect() -> None:
    once = ToolSpec(id="t", effect="once")
    fault = classify(answered_with(500, {"message": "parameter `limit` must be at most 100"}), once)
    assert (fault.category, fault.happened) == ("parameter_error", "unknown")
    assert in_doubt(fault, once)
    assert not may_retry(fault, once)


@pytest.mark.parametrize(
    ("error", "secs"),
    [
        (answered_with(429, {"message": "too fast", "retry_after": 1.5}), 1.5),
        (answered_with(429, {"message": "Please try again in 20s."}), 20.0),
        (answered_with(429, {"retry_after": 1.5}, **{"Retry-After": "9"}), 9.0),
        (answered_with(400, {"code": "Throttling", "message": "retry after 3 seconds"}), 3.0),
        (answered_with(404, {"message": "no such page, retry after 3 seconds"}), None),
        (RuntimeError("429 Too Many Requests, Retry-After: 4"), 4.0),
        (RuntimeError("no such seat; try again in 4 seconds"), 4.0),
    ],
    ids=str,
)
def test_a_wait_that_is_told_in_words_is_kept(error: BaseException, secs: float | None) -> None:
    assert classify(error, BOOK, now=NOW).retry_after == secs


def test_an_answer_that_was_not_read_is_not_read_now() -> None:
    looked: list[str] = []

    class Streamed:
        status_code = 400
        headers: dict[str, str] = {}
        _content = False

        @property
        def text(self) -> str:
            looked.append("this would wait for the network")
            return "Throttling"

    error = RequestsHTTPError("400 Client Error")
    error.response = Streamed()
    assert classify(error).category == "parameter_error"
    assert looked == []
    error.response._content = b"Throttling"
    assert classify(error).category == "external_error"
    unread = httpx2.Response(400, stream=httpx2.ByteStream(b"Throttling"), request=REQUEST)
    fault = classify(httpx2.HTTPStatusError("no", request=REQUEST, response=unread))
    assert fault.category == "parameter_error"


def test_an_answer_that_breaks_when_it_is_looked_at_tells_its_status_still() -> None:
    class Hostile(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no items")

    error = ToolCallError("no", kind="http", status=400)
    error.body = Hostile()  # type: ignore[attr-defined]
    assert classify(error).category == "parameter_error"
