"""Access tokens of a client (OAuth 2, RFC 6749 §4.4): asked for once, kept until they expire."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from replan.core.secrets import KnownSecrets
from replan.core.words import in_digits
from replan.errors import ToolCallError
from replan.tools.openapi.security import ClientCredentials

if TYPE_CHECKING:
    import httpx2

_EARLY_SECS = 30.0
"""So long before it expires, a token is renewed."""
_UNSAID_SECS = 300.0
"""How long a token is kept whose answer does not say it."""
_LARGEST = 1 << 16
_ASK_SECS = 30.0
"""How long the answer may take: all calls wait for it, and the next try begins after it."""


class ClientTokens:
    """The token of one client. Calls that need it at the same time wait for the same answer."""

    def __init__(
        self,
        of: ClientCredentials,
        client: Callable[[], httpx2.AsyncClient],
        secrets: KnownSecrets | None = None,
        *,
        ask_secs: float = _ASK_SECS,
    ) -> None:
        self._of = of
        self._client = client
        self._ask_secs = ask_secs
        self._secrets = KnownSecrets() if secrets is None else secrets
        """Told of every token."""
        self._secrets.add(of.client_secret, "client_secret")
        self._token: str | None = None
        self._until = 0.0
        self._asking: asyncio.Task[str] | None = None

    async def token(self, *, not_this: str | None = None) -> str:
        """A token that is valid as far as is known. `not_this`: one that was refused, so that another is wanted.

        Raises `ToolCallError`; the call that needs the token was not made then.
        """
        if self._token is not None and self._token != not_this and time.monotonic() < self._until:
            return self._token
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
            self._asking.add_done_callback(self._asked)
        # Who gives up does not take the token from the others.
        return await asyncio.shield(self._asking)

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError, ToolCallError):
                await self._asking

    def _asked(self, task: asyncio.Task[str]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()

    async def _ask(self) -> str:
        import httpx2

        from replan.tools.network.body import read_limited

        of = self._of
        form = [("grant_type", "client_credentials"), *of.more]
        if of.scopes:
            form.append(("scope", " ".join(of.scopes)))
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        auth = None
        if of.in_body:
            form += [("client_id", of.client_id), ("client_secret", of.client_secret)]
        else:  # both are form-encoded first (§2.3.1)
            auth = httpx2.BasicAuth(quote(of.client_id, safe=""), quote(of.client_secret, safe=""))
        content = "&".join(f"{quote(key, safe='')}={quote(text, safe='')}" for key, text in form)
        try:
            async with (
                asyncio.timeout(self._ask_secs),
                self._client().stream(
                    "POST", of.token_url, content=content.encode(), headers=headers, auth=auth
                ) as answer,
            ):
                body = await read_limited(answer, _LARGEST, of.scheme)
                status = answer.status_code
        except ToolCallError as error:
            raise ToolCallError(
                f"no token for {of.scheme!r}: {error}", kind=error.kind, happened="no"
            ) from None
        except TimeoutError:
            text = f"no token for {of.scheme!r}: no answer within {in_digits(self._ask_secs)} seconds"
            raise ToolCallError(text, kind="timeout", happened="no") from None
        except httpx2.HTTPError as error:
            said = str(error) or type(error).__name__
            kind = "timeout" if isinstance(error, httpx2.TimeoutException) else "unavailable"
            raise ToolCallError(f"no token for {of.scheme!r}: {said}", kind=kind, happened="no") from None
        found = _read(body)
        if status >= 300 or not isinstance(found.get("access_token"), str):
            said = " ".join(str(found[key]) for key in ("error", "error_description") if key in found)
            said = self._secrets.hide(said)[:300]  # hidden first: half a secret is one, too
            text = f"no token for {of.scheme!r}: the token endpoint answered {status} {said}".strip()
            kind = "http" if status >= 400 else "unavailable"
            raise ToolCallError(text, kind=kind, happened="no", status=status if status >= 400 else None)
        secs = found.get("expires_in")
        known = isinstance(secs, int | float) and not isinstance(secs, bool)
        lasts = float(secs) if known and secs is not None else _UNSAID_SECS
        self._token = str(found["access_token"])
        self._secrets.add(self._token, "access_token")
        self._until = time.monotonic() + max(lasts - _EARLY_SECS, lasts / 2)
        return self._token


def _read(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
