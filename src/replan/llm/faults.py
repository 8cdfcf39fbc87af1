"""What goes wrong between us and a model's endpoint, and what to do about it, in words."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from replan.core.failures.transport import status_passes
from replan.errors import ModelUnavailable


class AnswerTooLarge(Exception):
    """No answer is that large."""


class EndpointError(ModelUnavailable):
    """A model's endpoint failed or refused.

    `status`: HTTP status, if any; `code`: the error's own code, if it has one; `retry_after`: seconds it asked for.
    `in_stream`: the answer had begun to stream; `lost`: the connection broke.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        setup: bool = False,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        lost: bool = False,
    ) -> None:
        super().__init__(message, transient=transient, setup=setup, refused=status in (401, 403))
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.lost = lost
        self.in_stream = False


def of_status(where: str, error: Any, *, quota: bool, key: str) -> EndpointError:
    """The fault that an answer of status 400 or more is. `key`: what to do about a refused key."""
    status: int = error.status_code
    body = error.body
    said = body.get("message") if isinstance(body, dict) else body
    detail = f": {str(said)[:500]}" if said else ""
    transient = not quota and status_passes(status)
    if status in (401, 403):
        return EndpointError(
            f"{where} refuses access (status {status}){detail}; {key}", status=status, setup=True
        )
    return EndpointError(
        f"{where} answered with status {status}{detail}",
        transient=transient,
        status=status,
        code=str(code) if isinstance(body, dict) and (code := body.get("code")) else None,
        retry_after=error.retry_after,
    )


def unreachable(where: str, error: BaseException) -> str:
    """The message for an endpoint that could not be reached."""
    inner, asked = error, _asked(error)
    while (next_ := inner.__cause__ or inner.__context__) is not None:
        inner = next_
        asked = _asked(inner) or asked  # the innermost knows where it was led
    detail = str(inner) or str(error) or type(error).__name__
    if asked and _place(asked) not in where:
        return (
            f"{where} leads on to {_place(asked)}, which cannot be reached ({detail}): is the address right?"
        )
    return f"{where} cannot be reached ({detail}): is the server running there, and is the address right?"


def _asked(error: BaseException) -> str:
    """The address that a request went to in the end; empty if the error does not know it."""
    try:
        return str(error.request.url)  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # no error of a request, or one without it
        return ""


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def wrong_key(where: str, status: int) -> str:
    """The message for an endpoint that refuses the key."""
    return f"{where} refuses the API key (status {status}): set [llm] api_key, or APP_LLM_API_KEY in the environment"
