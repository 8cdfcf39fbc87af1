"""Errors as services and libraries word them, none from the collection that the rules are measured with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.failures.chinese import in_english
from replan.core.failures.classes import error_class, names_parameter
from replan.core.failures.text import (
    MAX_BODY,
    Said,
    read_body,
    stated_status,
    stated_wait,
    together,
    words,
)

Row = tuple[int | None, str, str, str]

TRANSIENT: list[Row] = [
    (500, "", "", "transient"),
    (503, "", "upstream connect error or disconnect/reset before headers", "transient"),
    (599, "", "network connect timeout error", "transient"),
    (408, "", "The client took too long to send the request", "transient"),
    (425, "", "Too Early", "transient"),
    (500, "InvalidCursor", "The cursor belongs to another query", "transient"),
    (502, "AccessDenied", "", "transient"),
    (500, "InternalError", "We encountered an internal error. Please try again.", "transient"),
    (400, "ServiceBusy", "The partition is moving to another node.", "transient"),
    (400, "transient-failure", "The lease could not be renewed", "transient"),
    (None, "ENGINE_OVERLOADED", "The engine has more work than it can take", "transient"),
    (None, "", "The search backend is temporarily unavailable", "transient"),
    (None, "", "read tcp 10.0.0.3:443: connection reset by peer", "transient"),
    (None, "", "The query timed out after 30 s", "transient"),
    (None, "DeadlineExceeded", "", "transient"),
    (529, "overloaded_error", "Overloaded", "transient"),
    (400, "lock_timeout", "Another request is using this object right now", "transient"),
    (None, "", "ERROR: deadlock detected", "transient"),
    (None, "", "could not connect to server: Connection refused", "transient"),
    (409, "IndexNotReady", "The index is being built", "transient"),
    (423, "", "The file is locked by a running export, try again in a few minutes", "transient"),
]
THROTTLED: list[Row] = [
    (429, "", "", "throttled"),
    (429, "", "You have sent 61 requests in a minute; 60 are allowed", "throttled"),
    (
        403,
        "",
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        "throttled",
    ),
    (400, "Throttling", "Rate exceeded", "throttled"),
    (400, "REQUEST_THROTTLED", "", "throttled"),
    (400, "", "Too many concurrent requests for this tenant", "throttled"),
    (503, "SlowDown", "Please reduce your request rate.", "throttled"),
    (500, "", "Rate limit reached for model x in organization y", "throttled"),
    (404, "call_limit", "Application request limit reached: calls per minute are limited", "throttled"),
    (None, "rate-limited", "", "throttled"),
    (None, "ratelimited", "", "throttled"),
    (403, "userRateLimitExceeded", "", "throttled"),
    (429, "RESOURCE_EXHAUSTED", "Quota exceeded", "throttled"),
    (400, "", "The channel's message throughput has been reached", "throttled"),
    (None, "", "FATAL: sorry, too many clients already", "throttled"),
    (None, "", "You are sending messages too quickly", "throttled"),
    (None, "QueryThroughputExceeded", "", "throttled"),
]
CALLER: list[Row] = [
    (400, "", "", "caller"),
    (404, "", "", "caller"),
    (405, "", "", "caller"),
    (422, "", "name has already been taken", "caller"),
    (409, "", "the branch was changed by somebody else", "caller"),
    (410, "", "This invitation is gone", "caller"),
    (412, "etag_mismatch", "", "caller"),
    (413, "", "", "caller"),
    (415, "", "", "caller"),
    (501, "", "PATCH is not implemented here", "caller"),
    (500, "", "parameter `limit` must be at most 100", "caller"),
    (500, "", "Missing required argument: start_date", "caller"),
    (400, "InvalidPaginationToken", "The token does not belong to this list", "caller"),
    (400, "", "Unknown currency: EURO", "caller"),
    (400, "", "Timeout must be between 1 and 60", "caller"),
    (None, "SUBSCRIPTION_NOT_FOUND", "", "caller"),
    (None, "bucket-already-exists", "", "caller"),
    (None, "", "Payment method card_123 not found", "caller"),
    (None, "", "Role admin does not exist", "caller"),
    (None, "", "Package P-17 not found", "caller"),
    (None, "", "missing 1 required positional argument: 'permission'", "caller"),
    (None, "", "Order 7 cannot be cancelled: it is already delivered", "caller"),
    (404, "ModuleNotFound", "The course has no such module", "caller"),
    (400, "context_length_exceeded", "At most 8192 tokens fit in; the messages have 9000", "caller"),
    (400, "TooManyTags", "", "caller"),
    (400, "DependencyViolation", "The group has a dependent object", "caller"),
    (409, "LimitExceeded", "A list holds 50 entries", "caller"),
    (None, "UnsupportedMediaType", "", "caller"),
    (None, "", "No such customer: cus_123", "caller"),
    (None, "", "Expected an ISO 8601 date, got 'tomorrow'", "caller"),
    (None, "VALIDATION_FAILED", "The service could not validate the template", "caller"),
]
OUTSIDE: list[Row] = [
    (401, "", "", "outside"),
    (402, "", "", "outside"),
    (403, "", "", "outside"),
    (451, "", "Not available in your country", "outside"),
    (511, "", "", "outside"),
    (400, "", "API key not valid. Please pass a valid API key.", "outside"),
    (400, "INVALID_ARGUMENT", "The provided API key is expired", "outside"),
    (400, "ExpiredToken", "The security token included in the request is expired", "outside"),
    (400, "invalid_grant", "The refresh token has been revoked", "outside"),
    (400, "OptInRequired", "You are not subscribed to this service", "outside"),
    (400, "InsufficientPermissions", "", "outside"),
    (400, "SignatureDoesNotMatch", "The signature we calculated does not match the one you sent", "outside"),
    (429, "insufficient_quota", "You exceeded your current quota, check your plan and billing details", "outside"),
    (400, "AccountSuspended", "", "outside"),
    (None, "storage-quota-exceeded", "", "outside"),
    (400, "invalid_request", "Your balance is too low: go to Plans and Billing to upgrade", "outside"),
    (400, "api_key_expired", "", "outside"),
    (400, "invalid_client", "", "outside"),
    (None, "not_authed", "", "outside"),
    (None, "invalid_auth", "", "outside"),
    (None, "account_inactive", "", "outside"),
    (None, "missing_scope", "", "outside"),
    (None, "", "[Errno 13] Permission denied: '/etc/shadow'", "outside"),
    (None, "", "Your access has been revoked", "outside"),
    (None, "", "libfoo.so.1: cannot open shared object file", "outside"),
    (None, "", "Cannot connect to the container daemon. Is it running?", "outside"),
    (None, "", "Please install the package openpyxl", "outside"),
    (None, "", "Your project has been disabled by its owner", "outside"),
    (None, "", "ModuleNotFoundError: No module named 'pandas'", "outside"),
    (None, "", "/bin/sh: 1: ffmpeg: command not found", "outside"),
    (None, "", "kill: no such process", "outside"),
    (None, "", "The v1 API was retired on 1 June; use v2", "outside"),
    (None, "UNAUTHENTICATED", "", "outside"),
    (None, "", "User not authenticated. Please log in first.", "outside"),
    (None, "", "Your trial has expired", "outside"),
]  # fmt: skip
UNTOLD: list[Row] = [
    (None, "", "", "None"),
    (None, "", "boom", "None"),
    (None, "", "payment amount does not add up: the total is 375, paid 299", "None"),
    (None, "", "no rooms left on these dates", "None"),
    (None, "", "see https://example.test/forbidden/billing/quota-exceeded", "None"),
    (200, "", "", "None"),
    (302, "", "moved", "None"),
]


def label(row: Row) -> str:
    status, code, message, _ = row
    return f"{status} {code} {message}"[:60]


@pytest.mark.parametrize("row", [*TRANSIENT, *THROTTLED, *CALLER, *OUTSIDE, *UNTOLD], ids=label)
def test_an_error_has_the_class_that_its_status_and_words_say(row: Row) -> None:
    status, code, message, expected = row
    assert str(error_class(status=status, code=code, message=message)) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (403, "throttled"),
        (409, "throttled"),
        (429, "throttled"),
        (503, "transient"),
        (401, "outside"),
        (422, "caller"),
    ],
)
def test_a_wait_that_is_asked_for_is_a_matter_of_pace(status: int, expected: str) -> None:
    assert error_class(status=status, retry_after=5.0) == expected


def test_a_payment_that_is_due_is_not_waited_for_unless_a_wait_is_named() -> None:
    unpaid = "Out of credits: see your billing page"
    assert error_class(status=429, message=unpaid) == "outside"
    assert error_class(status=429, message=unpaid, retry_after=3.0) == "throttled"


@pytest.mark.parametrize("status", range(400, 600))
def test_every_status_of_an_error_has_a_class(status: int) -> None:
    found = error_class(status=status)
    assert found is not None
    assert (found == "transient") is (
        status in (408, 425) or (status >= 500 and status not in (501, 505, 507, 511))
    )


@pytest.mark.parametrize(
    ("message", "parameters", "named"),
    [
        ("parameter `limit` must be at most 100", (), True),
        ("`limit` must be at most 100", (), False),
        ("`limit` must be at most 100", ("limit",), True),
        ("start_date is not a valid date", ("startDate",), True),
        ("got an unexpected keyword argument 'unit'", (), True),
        ("1 validation error for Booking\ncabin\n  Input should be 'business'", ("cabin",), True),
        ("the limit was reached", ("limit",), False),
        ("Something broke. The city is lovely", ("city",), False),
        ("internal error", ("$", ""), False),
        ("the city\u2019s name can't be empty", ("city",), True),
    ],
)
def test_a_message_names_a_parameter_if_it_complains_about_it(
    message: str, parameters: tuple[str, ...], named: bool
) -> None:
    assert names_parameter(message, parameters) is named
    assert error_class(status=500, message=message, parameters=parameters) == (
        "caller" if named else "transient"
    )


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("ThrottlingException", "throttling exception"),
        ("HTTPSProxyError_code-7", "https proxy error code 7"),
        ("It isn\u2019t there. It can't be.", "it is not there . it can not be ."),
        ("at https://x.test/a?b=c now", "at now"),
        ("größe fehlt", "größe fehlt"),
    ],
)
def test_names_are_split_into_words(text: str, split: str) -> None:
    assert words(text) == split


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("HTTP 429 Too Many Requests", 429),
        ("HTTP/1.1 500", 500),
        ("Request failed with status code 503", 503),
        ("Client error '404 Not Found' for url 'http://x.test'", 404),
        ("Error code: 400 - bad", 400),
        ("data error. status_code=422", 422),
        ("503 Service Unavailable", 503),
        ("HTTP status is 418", 418),
        ("HTTP 200", None),
        ("room 404 is taken", None),
        ("exit code 401", None),
        ("order 503 items", None),
        ("HTTP 5031", None),
    ],
)
def test_a_status_in_a_text_is_known_by_the_word_for_it_or_its_phrase(text: str, status: int | None) -> None:
    assert stated_status(text) == status


@pytest.mark.parametrize(
    ("text", "secs"),
    [
        ("Please try again in 20s.", 20.0),
        ("retry after 1.5 seconds", 1.5),
        ("try again in 6m30s", 390.0),
        ("try again in 250ms", 0.25),
        ("wait 2 minutes before the next call", 120.0),
        ("Retry-After: 7", 7.0),
        ("'retry_after': 64.5", 64.5),
        ("try again in 20 hours", None),
        ("try again in 3 days", None),
        ("retry 3 messages", None),
        ("try again later", None),
        ("it took 30 seconds", None),
    ],
)
def test_a_wait_in_a_text_is_read_up_to_an_hour(text: str, secs: float | None) -> None:
    assert stated_wait(text) == secs


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"code": 429, "status": "EXHAUSTED", "message": "no"}}, Said("no", "EXHAUSTED", 429)),
        ('{"type": "error", "error": {"type": "overloaded", "message": "busy"}}', Said("busy", "error overloaded")),
        ({"message": "slowly", "retry_after": 1.5}, Said("slowly", wait=1.5)),
        ({"error": "rate_limited"}, Said(code="rate_limited")),
        ({"error": "it is too fast"}, Said("it is too fast")),
        ({"detail": [{"loc": ["query", "n"], "msg": "too big"}]}, Said("too big")),
        ({"ResponseMetadata": {"HTTPStatusCode": 400}}, Said(status=400)),
        ("Rate exceeded", Said("Rate exceeded")),
        ("<html>Forbidden</html>", Said()),
        ("x" * (MAX_BODY + 1), Said()),
        ("[" * MAX_BODY, Said("[" * MAX_BODY)),
        ({"code": True, "status": float("nan"), "retry_after": -1}, Said()),
        (None, Said()),
        (17, Said()),
    ],
)  # fmt: skip
def test_a_body_says_what_its_usual_fields_say(body: Any, said: Said) -> None:
    assert together(list(read_body(body))) == said


@pytest.mark.parametrize(
    "part", ["limit maximum number of per account ", "exceed request limit ", "wait ", "429 ", "a"]
)
def test_a_very_long_message_is_read_at_its_start_only(part: str) -> None:
    long = part * 1_000_000
    assert error_class(status=500, message=long) in ("transient", "throttled")
    assert len(words(long)) < 10_000


# ── Chinese ───────────────────────────────────────────────────────────────────

CHINESE: list[tuple[str, str | None]] = [
    ("工具服务连接超时", "transient"),
    ("连接被重置", "transient"),
    ("連線逾時", "transient"),
    ("網路錯誤", "transient"),
    ("服务暂不可用，请稍后重试", "transient"),
    ("服务器内部错误", "transient"),
    ("系统繁忙", "transient"),
    ("未知错误", "transient"),
    ("请求过于频繁", "throttled"),
    ("調用頻率超過限制", "throttled"),
    ("接口限流", "throttled"),
    ("权限不足，无法删除", "outside"),
    ("令牌已过期", "outside"),
    ("未登录", "outside"),
    ("账户余额不足", "outside"),
    ("今日配额已用完", "outside"),
    ("命令未找到", "outside"),
    ("参数city无效：没有这个城市", "caller"),
    ("日期格式不正确，应为 YYYY-MM-DD", "caller"),
    ("缺少必填参数 date", "caller"),
    ("不支持TIFF格式", "caller"),
    ("该用户不存在", "caller"),
    ("名称重复", "caller"),
    ("打印完成", None),
]


@pytest.mark.parametrize(("message", "expected"), CHINESE)
def test_chinese_errors_are_read_by_the_rules_for_english_ones(message: str, expected: str | None) -> None:
    assert error_class(status=None, message=message) == expected


def test_structure_outweighs_words_in_any_language() -> None:
    assert error_class(status=404, message="服务器内部错误") == "caller"
    assert error_class(status=503, message="权限不足") == "transient"
    assert error_class(status=403, message="сервер недоступен") == "outside"
    assert error_class(status=None, message="сервер недоступен") is None, "a language that nobody promised"


def test_a_parameter_is_recognised_in_a_chinese_message() -> None:
    assert names_parameter("city 不能为空", ["city"])
    assert names_parameter("参数错误", ["city"])
    assert not names_parameter("服务器内部错误", ["city"])


@pytest.mark.parametrize(
    ("text", "secs"),
    [("请在3秒后重试", 3.0), ("2分鐘後再試", 120.0), ("请500毫秒后重试", 0.5), ("三天后见", None)],
)
def test_a_wait_is_read_in_chinese_too(text: str, secs: float | None) -> None:
    assert stated_wait(text) == secs


@given(st.text(st.characters(max_codepoint=0x4DFF), max_size=200))
def test_a_text_without_chinese_is_left_as_it_is(text: str) -> None:
    assert in_english(text) == text


@given(st.text(st.sampled_from("请求超时参数无效连接错误abc 1：，"), max_size=300))
def test_any_chinese_text_has_a_class_or_none(text: str) -> None:
    assert error_class(status=None, message=text) in ("transient", "throttled", "caller", "outside", None)
