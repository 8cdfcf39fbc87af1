"""Whether a call of which an error is known has happened: from what the error carries, never cleared by its words."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import http.client
import imaplib
import json
import poplib
import queue
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.failures.faults import classify, in_doubt, may_retry
from replan.core.failures.transport import happened_after
from replan.core.types import ToolSpec
from replan.errors import RetryLater, ToolCallError

PAY = ToolSpec(id="pay", effect="once")
CLEAN = ToolSpec(id="pay", effect="once", errors_are_clean=True)


def raised(function: Callable[[], object]) -> BaseException:
    """What the function raises, with the context that it gets by being raised."""
    try:
        function()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("it raised nothing")


def named(name: str, *bases: type[BaseException], **fields: object) -> BaseException:
    return type(name, bases or (Exception,), fields)("said no")


def held(**fields: object) -> BaseException:
    error = RuntimeError("failed")
    vars(error).update(fields)
    return error


def in_the_midst_of(first: BaseException, then: BaseException, *, hidden: bool = False) -> BaseException:
    def fail() -> None:
        try:
            raise first
        except BaseException:  # noqa: BLE001
            if hidden:
                raise then from None
            raise then  # noqa: B904

    return raised(fail)


DOUBTS = [
    TimeoutError("slow"),
    subprocess.TimeoutExpired("pay", 3),
    ConnectionResetError("cut"),
    BrokenPipeError("cut"),
    OSError(110, "timed out"),
    subprocess.CalledProcessError(-9, "pay"),
    named("ReadTimeout"),
    named("SMTPServerDisconnected", OSError),
    named("OperationalError", sqlstate="08006"),
    named("QueryFailed", pgcode="57P01"),
    named("ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 503}}),
    named("StripeError", http_status=502),
    named("BrokenProcessPool", type("BrokenExecutor", (RuntimeError,), {})),
    http.client.BadStatusLine(""),
    OSError(errno.ENETRESET, "the network dropped the connection"),
    OSError(errno.EHOSTUNREACH, "no route to host"),
    OSError(errno.EIO, "half written"),
    subprocess.CalledProcessError(124, "timeout"),
    subprocess.CalledProcessError(137, "sh"),
    concurrent.futures.CancelledError(),
    MemoryError(),
    named("GatewayError", status_code="504"),
    named("InternalServerError"),
]
WRAPPINGS: dict[str, Callable[[BaseException], BaseException]] = {
    "alone": lambda doubt: doubt,
    "subclassed": lambda doubt: doubt,
    "raised from": lambda doubt: raised(lambda: _raise_from(doubt)),
    "raised while it was handled": lambda doubt: in_the_midst_of(doubt, ValueError("no such account")),
    "raised while it was handled, and hidden": lambda doubt: in_the_midst_of(
        doubt, ValueError("no"), hidden=True
    ),
    "in a group": lambda doubt: (
        ExceptionGroup("both", [ValueError("no"), doubt]) if isinstance(doubt, Exception) else doubt
    ),
    "in a group in a group": lambda doubt: ExceptionGroup("a", [ExceptionGroup("b", [doubt])]),  # type: ignore[list-item]
    "in a field": lambda doubt: held(inner_error=doubt),
    "in a list in a field": lambda doubt: held(errors=[doubt]),
    "in a field in a field": lambda doubt: held(details={"causes": [held(original=doubt)]}),
    "in a list as an argument": lambda doubt: RuntimeError("failed", [doubt]),
    "as an argument": lambda doubt: RuntimeError("failed", doubt),
    "before a status": lambda doubt: in_the_midst_of(doubt, named("NotFound", status_code=404)),
    "before a refusal": lambda doubt: in_the_midst_of(doubt, ConnectionRefusedError("no")),
    "before what the tool says itself": lambda doubt: in_the_midst_of(doubt, ToolCallError("no")),
}


def _raise_from(doubt: BaseException) -> None:
    raise ValueError("no such account") from doubt


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: type(doubt).__name__)
def test_a_time_out_or_a_lost_connection_anywhere_in_an_error_is_a_doubt(
    doubt: BaseException, wrapping: str
) -> None:
    fault = classify(WRAPPINGS[wrapping](doubt), CLEAN)
    assert fault.happened == "unknown"
    assert in_doubt(fault, CLEAN)


@given(st.lists(st.sampled_from(sorted(WRAPPINGS)), max_size=5), st.sampled_from(DOUBTS))
def test_no_wrapping_of_a_doubt_clears_it(names: list[str], doubt: BaseException) -> None:
    error = type(doubt)(*doubt.args) if type(doubt) in (TimeoutError, ConnectionResetError) else doubt
    for name in names:
        with contextlib.suppress(TypeError):
            error = WRAPPINGS[name](error)
    assert classify(error, CLEAN).happened == "unknown"


@pytest.mark.parametrize(
    "end",
    [KeyboardInterrupt(), SystemExit(), SystemExit(0), type("Brutal", (BaseException,), {})()],
    ids=repr,
)
def test_what_ends_a_tool_in_the_midst_of_its_work_leaves_a_doubt(end: BaseException) -> None:
    fault = ToolCallError("the tool was ended")
    fault.__cause__ = end
    assert classify(fault, CLEAN).happened == "unknown"


def test_an_exit_with_a_word_is_what_the_tool_says() -> None:
    fault = ToolCallError("the tool was ended")
    fault.__cause__ = SystemExit("no such account")
    assert classify(fault, PAY).happened == "no"


@pytest.mark.parametrize(
    ("code", "command"),
    [(1, "pay"), (255, ["pay", "ssh-key"]), (28, ["pay", "28"]), (2, ["ssh", "host", "pay"]), (22, ["sh", "-c", "curl -f x"])],
)  # fmt: skip
def test_an_exit_code_of_a_program_is_its_answer(code: int, command: str | list[str]) -> None:
    assert classify(subprocess.CalledProcessError(code, command), PAY).happened == "no"


@pytest.mark.parametrize("written", ["curl: (28) Operation timed out", b"curl: (52) Empty reply from server"])
def test_what_a_failed_program_has_written_raises_a_doubt(written: str | bytes) -> None:
    error = subprocess.CalledProcessError(1, "curl", stderr=written)
    assert classify(error, PAY).happened == "unknown"


def test_a_note_on_an_error_raises_a_doubt() -> None:
    error = ValueError("failed")
    error.__notes__ = ["the connection was lost before the answer"]
    assert classify(error, PAY).happened == "unknown"


def test_the_end_of_a_long_message_raises_a_doubt() -> None:
    assert classify(ValueError("at step\n" * 2_000 + "Request timed out"), PAY).happened == "unknown"


def test_a_host_that_cannot_be_reached_while_connecting_has_got_nothing() -> None:
    class Unreachable(socket.socket):
        def connect(self, address: object, /) -> None:
            raise OSError(errno.EHOSTUNREACH, "no route to host")

    with Unreachable() as at:
        assert classify(raised(lambda: at.connect(("127.0.0.1", 1))), PAY).kind == "refused"


@pytest.mark.parametrize("many", [500, 3_000])
def test_an_error_that_carries_too_much_to_be_read_is_a_doubt(many: int) -> None:
    chain: BaseException = ValueError("first")
    for number in range(many):
        outer = ValueError(f"{number}")
        outer.__cause__ = chain
        chain = outer
    nested: Exception = ValueError("first")
    for _ in range(many):
        nested = ExceptionGroup("in", [nested])
    wide = ExceptionGroup("many", [ValueError(f"{number}") for number in range(many)])
    for error in (chain, nested, wide):
        assert classify(error, CLEAN).happened == "unknown"


def test_what_many_errors_share_is_read_once() -> None:
    shared = [ValueError(f"{number}") for number in range(60)]
    for one in shared:
        vars(one).update(others=shared)
    assert classify(shared[0], PAY).happened == "no"


def test_an_endless_chain_is_read_to_its_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__context__, second.__context__ = second, first
    assert classify(first, PAY).happened == "no"


def test_a_time_out_of_connecting_is_no_doubt() -> None:
    inner = TimeoutError("connecting")
    middle = named("ConnectTimeout")
    middle.__cause__ = middle.__context__ = inner
    outer = named("ConnectTimeout")
    outer.__cause__ = outer.__context__ = middle
    assert classify(outer, PAY).happened == "no"


@pytest.mark.parametrize(
    "text",
    [
        "the request timed out",
        "Request timeout after 30 s",
        "gateway time-out",
        "upstream: Read timeout",
        "deadline exceeded",
        "Connection was lost while waiting for the answer",
        "connection reset by peer",
        "broken pipe",
        "socket hang up",
        "server disconnected without sending a response",
        "read ECONNRESET",
        "no response within 10 seconds",
        "HTTP 502 from upstream",
        "status code: 504",
        "工具服务连接超时",
        "连接已断开",
        "timeout of 5000ms exceeded",
        "The operation was aborted due to timeout",
        "AbortError: The operation was aborted",
        "TypeError: fetch failed",
        "fetch failed: other side closed",
        "TypeError: terminated",
        "UND_ERR_HEADERS_TIMEOUT",
        "ESOCKETTIMEDOUT",
        "read tcp 10.0.0.1:443: i/o timeout",
        "Post https://pay.example/v1: EOF",
        "transport is closing",
        "net::ERR_EMPTY_RESPONSE",
        "curl: (56) Recv failure",
        "MySQL server has gone away",
        "ORA-03113: end-of-file on communication channel",
        "use of closed network connection",
        "context canceled",
        "Failed to fetch",
        "network error",
        "502 from upstream",
        "Timeout",
        "网络错误",
        "Zeitüberschreitung der Anforderung",
        "Verbindung unterbrochen",
        "die Verbindung zum Server wurde getrennt",
        "host became unreachable",
        "the gateway was unreachable",
    ],
)
def test_words_of_a_time_out_or_a_lost_connection_raise_a_doubt(text: str) -> None:
    assert classify(RuntimeError(text), PAY).happened == "unknown"
    assert classify(ToolCallError(text), PAY).happened == "unknown"
    assert classify(RuntimeError(text), CLEAN).happened == "no", "the user has said that its errors are clean"


@pytest.mark.parametrize(
    "text",
    [
        "Seat 7 is temporarily blocked; choose another seat",
        "not available yet",
        "Driver is busy, pick another",
        "API error: invalid date",
        "Database error: no such table",
        "Service unavailable for this region",
        "try again later",
        "the account is overloaded with requests",
        "timeout must be a positive number",
        "got an unexpected keyword argument 'timeout'",
        "invalid value for timeout: -1",
        "missing required field request_timeout",
        "no answer found for this question",
        "Order 500 not found",
        "Order 504 not found",
        "invalid status code 500 in parameter 'code'",
        "session timeout_secs: must be an integer",
        "no such table: timeouts",
        "time out of range",
        "request aborted: room unknown",
        "Time-out tables can't be booked",
        "Bad gateway id",
        "EOF expected at line 3",
        "No response field given",
        "Customer does not respond to 'Ann'",
        "The broken pipe has no part number",
        "unexpected EOF while parsing the amount",
        "invalid parameter timeout",
        "an internal error occurred",
        "could not connect: connection refused",
        "HTTP 404: no such seat",
        "429 Too Many Requests, Retry-After: 3",
        "resource is locked",
        "超时时间必须为正数",
        "Verbindung abgelehnt",
        "no such account: Verbindlichkeit",
        "unreachable code in line 3",
    ],
)
def test_words_of_busyness_and_refusal_say_nothing_of_the_outcome(text: str) -> None:
    assert classify(ToolCallError(text), PAY).happened == "no"
    assert classify(RuntimeError(text), PAY).happened == "no"
    messy = ToolSpec(id="pay", effect="once", errors_are_clean=False)
    assert classify(ToolCallError(text), messy).happened == "unknown"


# ── answers that refuse, and tell of something lost behind them ───────────────


class Answered(Exception):
    def __init__(self, text: str, status: int, **fields: object) -> None:
        super().__init__(text)
        vars(self).update(status_code=status, **fields)


@pytest.mark.parametrize("status", [400, 402, 409, 418, 423, 424, 499])
@pytest.mark.parametrize(
    "text", ["the card network timed out", "connection reset by upstream", "502 from upstream"]
)
def test_a_refusal_that_tells_of_a_time_out_behind_it_is_a_doubt(status: int, text: str) -> None:
    for error in (Answered(text, status), ToolCallError(text, kind="http", status=status, happened="no")):
        fault = classify(error, PAY)
        assert fault.happened == "unknown"
        assert not may_retry(fault, PAY)
    assert classify(Answered(text, status), CLEAN).happened == "no"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 412, 418, 423, 424, 428, 451, 499])
@pytest.mark.parametrize(
    "text",
    ["internal error", "service unavailable", "busy, try again later", "deadlock", "throttled", "locked", "rate limit exceeded"],
)  # fmt: skip
def test_no_word_of_a_refusal_makes_code_repeat_an_effect(status: int, text: str) -> None:
    assert not may_retry(classify(Answered(text, status), PAY), PAY)


@pytest.mark.parametrize(
    "code", ["RequestTimeout", "Timeout", "GatewayTimeout", "ServiceUnavailable", "InternalError"]
)
def test_no_code_of_a_refusal_makes_code_repeat_an_effect(code: str) -> None:
    response = {"Error": {"Code": code, "Message": "failed"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    error = named("ClientError", response=response)
    assert not may_retry(classify(error, PAY), PAY)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 408, 500, 503])
def test_every_answer_but_a_plain_refusal_leaves_it_open_what_happened(status: int) -> None:
    assert happened_after(status) == "unknown"
    redirected = named("HTTPStatusError", response=type("R", (), {"status_code": status})())
    assert in_doubt(classify(redirected, PAY), PAY)
    assert in_doubt(classify(raised(lambda: _wrapping(redirected)), PAY), PAY)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 451])
def test_a_plain_refusal_says_that_it_did_not_happen(status: int) -> None:
    assert happened_after(status) == "no"


@pytest.mark.parametrize("code", [100, 187, 302])
def test_a_small_number_of_somebodys_own_is_no_status(code: int) -> None:
    assert classify(named("ApiError", code=code), PAY).happened == "no"


def _wrapping(error: BaseException) -> None:
    raise ValueError("the payment could not be made") from error


def test_who_is_turned_away_by_the_protocol_may_come_again() -> None:
    for status in (425, 429):
        assert may_retry(classify(Answered("later", status), PAY), PAY)
    wait = named("HTTPError", response=type("R", (), {"status_code": 409, "headers": {"Retry-After": "2"}})())
    assert may_retry(classify(wait, PAY), PAY)


@pytest.mark.parametrize(
    "error",
    [
        imaplib.IMAP4.abort("socket error: EOF"),
        poplib.error_proto("-ERR EOF"),
        queue.Empty(),
        SystemExit(3),
        named("Error", args=("08S01", "[08S01] Communication link failure")),
        named("DatabaseError", args=("ORA-03113: end-of-file on communication channel",)),
        named("DBAPIError", connection_invalidated=True),
        named("Error", errno=2055),
        named("TargetClosedError"),
        subprocess.CalledProcessError(28, ["curl", "https://pay.example"]),
        subprocess.CalledProcessError(52, "/usr/bin/curl https://pay.example"),
        subprocess.CalledProcessError(4, ["wget", "https://pay.example"]),
        subprocess.CalledProcessError(255, ["ssh", "host", "pay"]),
        subprocess.CalledProcessError(255, [Path("/usr/bin/scp"), "a", "host:b"]),
        subprocess.CalledProcessError(255, [b"ssh", b"host", b"pay"]),
        subprocess.CalledProcessError(12, ["rsync", "a", "host:b"]),
        subprocess.CalledProcessError(56, ["bash", "-c", "curl http://pay.example"]),
        subprocess.CalledProcessError(28, ["sh", "-c", "cd /tmp && curl -sS http://pay.example | jq ."]),
        subprocess.CalledProcessError(52, "answer=$(/usr/bin/curl http://pay.example)"),
        subprocess.CalledProcessError(255, ["sudo", "-u", "bob", "ssh", "host", "pay"]),
    ],
    ids=lambda error: f"{type(error).__name__} {error.args}",
)
def test_what_common_libraries_raise_for_a_lost_connection_is_a_doubt(error: BaseException) -> None:
    assert classify(error, PAY).happened == "unknown"


@pytest.mark.parametrize(
    "error",
    [
        *(Answered("refused", status) for status in (400, 404, 409, 422, 425, 429, 503)),
        named("HTTPError", response=type("R", (), {"status_code": 429, "headers": {"Retry-After": "2"}})()),
        ToolCallError("no", kind="http", status=429, happened="no"),
        ConnectionRefusedError("refused"),
        named("ConnectError"),
        ValueError("no such order"),
    ],
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'status_code', '')}",
)
def test_no_error_of_a_tool_that_may_have_done_a_part_says_that_nothing_happened(
    error: BaseException,
) -> None:
    messy = ToolSpec(id="pay", effect="once", errors_are_clean=False)
    fault = classify(error, messy)
    assert fault.happened == "unknown"
    assert not may_retry(fault, messy)


def test_a_tool_that_may_have_done_a_part_can_say_that_it_has_not() -> None:
    messy = ToolSpec(id="pay", effect="once", errors_are_clean=False)
    assert classify(RetryLater("later", 1), messy).happened == "no"
    assert classify(ToolCallError("no such account", happened="no"), messy).happened == "no"
    assert classify(ToolCallError("it was never sent", kind="unavailable"), messy).happened == "no"


FUNCTION = ToolSpec(id="pay", effect="once", in_process=True)


def answered(status: int, **headers: str) -> BaseException:
    """As HTTP clients raise it: the error holds the answer."""
    answer = type("Response", (), {"status_code": status, "headers": headers})()
    error = named("HTTPStatusError")
    vars(error)["response"] = answer
    return error


def through(error: BaseException) -> BaseException:
    def fail() -> None:
        try:
            raise error
        except Exception as cause:
            raise RuntimeError("the receipt could not be had") from cause

    return raised(fail)


@pytest.mark.parametrize(
    "error",
    [
        answered(429),
        answered(429, **{"Retry-After": "3"}),
        answered(425),
        answered(503, **{"Retry-After": "3"}),
        answered(409, **{"Retry-After": "3"}),
        ConnectionRefusedError("refused"),
        OSError(errno.ECONNREFUSED, "refused"),
        socket.gaierror("no such host"),
        named("ConnectError"),
        through(answered(429)),
        through(ConnectionRefusedError("refused")),
    ],
    ids=repr,
)
def test_what_was_turned_away_may_be_the_second_request_of_a_function(error: BaseException) -> None:
    fault = classify(error, FUNCTION)
    assert in_doubt(fault, FUNCTION)
    assert not may_retry(fault, FUNCTION)
    honours = FUNCTION.model_copy(update={"honours_key": True})
    assert may_retry(classify(error, honours), honours)
    reads = FUNCTION.model_copy(update={"effect": "reads"})
    assert not in_doubt(classify(error, reads), reads)


@pytest.mark.parametrize(
    "error",
    [
        RetryLater("the desk opens later", 3),
        ToolCallError("busy", kind="http", status=429, retry_after=3),
        ToolCallError("it was refused before anything was sent", kind="refused"),
        ToolCallError("no seat left", happened="no"),
        answered(404),
        answered(422),
        ValueError("no such seat"),
    ],
    ids=repr,
)
def test_what_a_function_says_of_itself_is_believed(error: BaseException) -> None:
    assert not in_doubt(classify(error, FUNCTION), FUNCTION)


@pytest.mark.parametrize("error", [answered(429), ConnectionRefusedError("refused")], ids=repr)
def test_a_source_of_one_request_and_a_function_whose_errors_are_clean_are_made_again(
    error: BaseException,
) -> None:
    for tool in (PAY, FUNCTION.model_copy(update={"errors_are_clean": True})):
        fault = classify(error, tool)
        assert not in_doubt(fault, tool)
        assert may_retry(fault, tool)


@pytest.mark.parametrize(
    "text",
    ["504 Gateway Timeout from bank", "upstream request timed out", '{"message": "socket hang up"}'],
)
def test_words_of_an_answer_about_the_form_raise_a_doubt(text: str) -> None:
    assert classify(Answered(text, 422), PAY).happened == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        '{"detail": [{"loc": ["body", "timeout"], "msg": "Field required"}]}',
        "Unexpected keyword argument 'read_timeout'",
        "missing: request_timeout",
        "amount is too large",
        "a" * 200_000 + '"b' * 100_000,
    ],
)
def test_the_names_of_fields_in_such_an_answer_raise_none(text: str) -> None:
    assert classify(Answered(text, 422), PAY).happened == "no"


CODES = [
    "timeout",
    "Timeout",
    "ETIMEDOUT",
    "ECONNRESET",
    "UPSTREAM_TIMEOUT",
    "gateway_timeout",
    "read-timeout",
]


@pytest.mark.parametrize("status", [400, 409, 422])
@pytest.mark.parametrize("code", CODES)
def test_one_word_or_code_for_what_went_wrong_raises_a_doubt(status: int, code: str) -> None:
    said = {"error": {"code": code, "message": "it failed", "field": None}}
    texts = (
        json.dumps(said),
        f"refused: {json.dumps({'message': code})}",
        f"Error: {code!r}",
        f"reason={code}",
    )
    for text in texts:
        assert classify(Answered(text, status), PAY).happened == "unknown", text
    for body in (said, json.dumps(said), [said] * 10_000):
        assert classify(Answered("it failed", status, body=body), PAY).happened == "unknown"
    assert classify(Answered("it failed", status, code=code), PAY).happened == "unknown"


@pytest.mark.parametrize("text", ["error: read_timeout is required", "message: 'request_timeout' unknown", '{"type": "missing"}'])  # fmt: skip
def test_what_is_said_of_a_field_is_no_code(text: str) -> None:
    assert classify(Answered(text, 422), PAY).happened == "no"
    assert (
        classify(Answered("it failed", 409, body={"job": {"status": "timeout", "timeout": 3}}), PAY).happened
        == "no"
    )


@pytest.mark.parametrize("status", [401, 403, 404])
@pytest.mark.parametrize(
    "text",
    ["session timed out, log in again", "Your connection to this project was closed by the owner", '{"loc":["body","timeout"]}'],
)  # fmt: skip
def test_what_is_checked_before_anything_is_done_leaves_no_doubt(status: int, text: str) -> None:
    assert classify(Answered(text, status), PAY).happened == "no"


@pytest.mark.parametrize(
    "text",
    ['{"errors":{"timeout":["must be less than 20"]}}', '{"error":"name is reserved","request":{"name":"a","timeout":30}}',
     '{"error":"job a exists","job":{"status":"timeout"}}', "INVALID_TIMEOUT"],
)  # fmt: skip
def test_a_field_that_is_called_timeout_is_no_time_out(text: str) -> None:
    for status in (400, 409):
        assert classify(Answered(text, status), PAY).happened == "no"
    assert classify(KeyError("timeout"), PAY).happened == "no"
