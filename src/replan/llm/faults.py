"""What goes wrong between us and a model's endpoint, and what to do about it, in words."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

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
    inner = error
    while (next_ := inner.__cause__ or inner.__context__) is not None:
        inner = next_
    detail = str(inner) or str(error) or type(error).__name__
    return f"{where} cannot be reached ({detail}): is the server running there, and is the address right?"


def leads_elsewhere(asked: str, location: str) -> EndpointError | None:
    """The fault that a redirect of an endpoint is; None if it stays at the same scheme, host and port.

    What is asked holds the task and goes with a key: both are for whom the user has named alone.
    """
    try:
        there = urlsplit(urljoin(asked, location))
        if _origin(there) == _origin(urlsplit(asked)):
            return None
        shown = _shown(there)
    except ValueError:  # no address
        shown = repr(location[:100])
    return EndpointError(
        f"{_shown(urlsplit(asked))} leads on to {shown} (an HTTP redirect), which was not asked: a model's endpoint is followed to no other "
        "address; if that is the right one, name it as the endpoint",
        setup=True,
    )


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _shown(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def wrong_key(where: str, status: int) -> str:
    """The message for an endpoint that refuses the key."""
    return f"{where} refuses the API key (status {status}): set [llm] api_key, or APP_LLM_API_KEY in the environment"
