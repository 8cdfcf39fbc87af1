"""What goes wrong between us and a model's endpoint, and what to do about it, in words."""

from __future__ import annotations

import time
from typing import Any, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

from replan.core.failures.faults import retry_after_secs
from replan.core.failures.transport import status_passes
from replan.errors import ModelUnavailable
from replan.llm.completions import error_in


class AnswerTooLarge(Exception):
    """No answer is that large."""


class Endless(AnswerTooLarge):
    """A model goes on and on: asked in another way it would cost as much again."""


class EndpointError(ModelUnavailable):
    """A model's endpoint failed or refused.

    `status`: HTTP status, if any; `code`: the error's own code, if it has one; `retry_after`: seconds it asked for.
    `in_stream`: the answer had begun to stream; `lost`: the connection broke; `endless`: the model said more than any answer has.
    `unasked`: it was not asked at all, as it wants to be left alone.
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
        self.setup = setup
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.lost = lost
        self.in_stream = False
        self.endless = False
        self.unasked = False
        self.asks_for = retry_after
        """Seconds that it has asked for, however much of that holds here."""

    @property
    def is_busy(self) -> bool:
        """It says "later", and is well: too many have asked (429, 529), or it wants to be left alone, and was."""
        return self.transient and (self.unasked or self.status in _BUSY)


_BUSY = (429, 529)


def explained(error: Exception, where: str, *, at_address: bool, key: str) -> EndpointError:
    """What a library has raised, as the fault that it is. `at_address`: of an endpoint that was named by its address."""
    from httpx2 import TooManyRedirects
    from pydantic_ai.exceptions import (
        ModelAPIError,
        ModelConnectionError,
        ModelHTTPError,
        ModelQuotaExceededError,
        ModelRequestTimeout,
        UserError,
    )

    if (own := _under(error, EndpointError)) is not None:
        return own
    if (large := _under(error, AnswerTooLarge)) is not None:
        fault = EndpointError(f"{where} does not answer as a chat model does: {large}")
        fault.endless = isinstance(large, Endless)
        return fault
    if _under(error, TooManyRedirects) is not None:
        return EndpointError(
            f"{where} leads on and on (HTTP redirects), and answers nowhere: is the address right?",
            setup=True,
        )
    if isinstance(error, UserError):  # the library itself will not ask so
        return EndpointError(f"{where} is not asked like this: {error}", status=400)
    if isinstance(error, ModelHTTPError):
        return of_status(where, error, quota=isinstance(error, ModelQuotaExceededError), key=key)
    if isinstance(error, ModelRequestTimeout):
        return EndpointError(f"{where} did not answer in time: {error}", transient=True)
    if isinstance(error, ModelConnectionError) or (isinstance(error, OSError) and not at_address):
        return EndpointError(unreachable(where, error), transient=True, lost=True)
    if isinstance(error, ModelAPIError):
        return EndpointError(f"{where} broke off its answer: {error}", transient=True)
    return EndpointError(
        f"{where} did not answer as a chat model does ({error}): is this the address of an OpenAI-compatible API?"
        if at_address
        else f"{where} gave an answer that cannot be read: {error}",
        transient=True,
    )


E = TypeVar("E", bound=BaseException)


def _under(error: BaseException, kind: type[E]) -> E | None:
    """The error of this kind that libraries have made another one of."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kind):
        cause = cause.__cause__ or cause.__context__
    return cause


def of_status(where: str, error: Any, *, quota: bool, key: str) -> EndpointError:
    """The fault that an answer of status 400 or more is. `key`: what to do about a refused key."""
    status: int = error.status_code
    body = error.body
    told = error_in(body) or body
    said = told.get("message") if isinstance(told, dict) else told
    detail = f": {str(said)[:500]}" if said else ""
    transient = not quota and status_passes(status)
    if status in (401, 403) or _names_key(told):
        return EndpointError(
            f"{where} refuses access (status {status}){detail}; {key}",
            status=status if status == 403 else 401,
            setup=True,
        )
    return EndpointError(
        f"{where} answered with status {status}{detail}",
        transient=transient,
        status=status,
        code=str(code) if isinstance(told, dict) and (code := told.get("code")) else None,
        retry_after=error.retry_after if error.retry_after is not None else _asked_in(error),
    )


def _asked_in(error: Any) -> float | None:
    """What its header asks for in a form that the library does not read, as decimals are."""
    said = next(
        (
            value
            for name, value in (getattr(error, "headers", None) or {}).items()
            if name.lower() == "retry-after"
        ),
        None,
    )
    return None if said is None else retry_after_secs(str(said), time.time())


def _names_key(told: Any) -> bool:
    """True of Google's way to refuse a key, which has the status of a wrong request."""
    details = told.get("details") if isinstance(told, dict) else None
    listed = details if isinstance(details, list) else []
    return any(isinstance(one, dict) and one.get("reason") == "API_KEY_INVALID" for one in listed)


def unreachable(where: str, error: BaseException) -> str:
    """The message for an endpoint that could not be reached."""
    inner = error
    while (next_ := inner.__cause__ or inner.__context__) is not None:
        inner = next_
    detail = str(inner) or str(error) or type(error).__name__
    return f"{where} cannot be reached ({detail}): is the server running there, and is the address right?"


REDIRECTS = (301, 302, 303, 307, 308)
_ASKS_THE_SAME = (307, 308)
"""After the others a question would be asked without its words."""
_OPERATION = "/chat/completions"


def leads_astray(method: str, asked: str, status: int, location: str | None) -> EndpointError | None:
    """The fault that a redirect of an endpoint is; None if it may be followed: to the same scheme, host and port, and with what was asked.

    What is asked holds the task and goes with a key: both are for whom the user has named alone.
    """
    here = urlsplit(asked)
    said = f"{_shown(here)}{here.path} answers with a redirect (HTTP {status})"
    if not location:
        return EndpointError(f"{said} that does not say where to: is the address right?", setup=True)
    try:
        there = urlsplit(urljoin(asked, location))
        same = _origin(there) == _origin(here)
        shown = _shown(there)
    except ValueError:  # no address
        same, shown = False, repr(location[:100])
    if not same:
        return EndpointError(
            f"{_shown(here)} leads on to {shown} (an HTTP redirect), which was not asked: a model's endpoint is followed to no other "
            "address; if that is the right one, name it as the endpoint",
            setup=True,
        )
    if method == "GET" or status in _ASKS_THE_SAME:
        return None
    base = there.path.rstrip("/").removesuffix(_OPERATION)
    moved = there.path.rstrip("/") == base + _OPERATION != here.path
    return EndpointError(
        f"{said} to {there.path}, and does not say that it may be asked the same there (as HTTP 307 and 308 do): it is not followed; "
        + (
            f"name {shown}{base} as the endpoint"
            if moved
            else f"is {shown}{here.path.removesuffix(_OPERATION)} the base URL of its API?"
        ),
        setup=True,
    )


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _shown(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def wrong_key(where: str, status: int) -> str:
    """The message for an endpoint that refuses the key."""
    return f"{where} refuses the API key (status {status}): set [llm] api_key, or APP_LLM_API_KEY in the environment"
