"""The HTTP client of tools, which connects only where the rules allow, and the reading of bodies no longer than wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE
from replan.errors import InputError, ToolCallError
from replan.tools.bounds import too_large
from replan.tools.network.addresses import AddressRules, Resolve

if TYPE_CHECKING:
    import ssl

    import httpx2


def guarded_client(
    rules: AddressRules | None = None,
    *,
    timeout: float | None = 30.0,  # seconds: of each connect, read and write, not of the whole
    headers: Mapping[str, str] | None = None,
    follow_redirects: bool = False,
    verify: ssl.SSLContext | None = None,
    resolve: Resolve | None = None,
) -> httpx2.AsyncClient:
    """A client that connects only where `rules` allow.

    Each new connection looks its name up once, leaves out the addresses that are refused, and connects to one of the
    others by its number; certificates are verified against the name. Only http and https. Proxies and certificates
    named in the environment are not used (a proxy would look names up itself). A refusal is the `ToolCallError` of
    `refused`. `headers` go with every request, also to the hosts that a redirect leads to (but `Authorization`, which
    only its own host gets): keep other secrets out of them where redirects are followed. No cookies are kept.
    `verify`: other trusted certificates. `resolve`: another way to look names up.
    Raises `InputError` if httpx2 is missing.
    """
    try:
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx2

        from replan.tools.network.transport import GuardedTransport
    except ModuleNotFoundError as error:
        raise InputError(
            f"requests over HTTP need {error.name}, which is not installed: pip install 'replan[kit]'"
        ) from error
    transport = GuardedTransport(rules or AddressRules(), resolve=resolve, verify=verify)
    return httpx2.AsyncClient(
        transport=transport,
        # Else what one task was given would go with the requests of another.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        timeout=timeout,
        headers=dict(headers or {}),
        follow_redirects=follow_redirects,
        max_redirects=10,
        trust_env=False,
    )


async def read_limited(response: httpx2.Response, limit: int, tool_id: str) -> bytes:
    """The whole body of a streamed answer, decompressed; `bounds.too_large` as soon as it has more than `limit` bytes.

    Decompressed bytes count, and no more than a megabyte is decompressed ahead. The answer is closed by whoever
    opened it. Raises what httpx2 does when the connection breaks.
    """
    import httpx2

    said = response.headers.get("content-length", "")
    plain = "content-encoding" not in response.headers and response.request.method != "HEAD"
    if plain and said.isascii() and said.isdigit() and int(said) > limit:
        raise too_large(tool_id, limit)
    pieces: list[bytes] = []
    size = ahead = 0
    try:
        async for piece in response.aiter_bytes():
            size += len(piece)
            ahead += len(piece)
            if size > limit:
                raise too_large(tool_id, limit)
            pieces.append(piece)
            if (
                ahead > AT_ONCE
            ):  # what is there already, or comes out of a few bytes, is read without a turn of the loop
                ahead = 0
                await asyncio.sleep(0)
    except httpx2.DecodingError as error:
        raise ToolCallError(
            f"the answer of {tool_id!r} is not compressed as it says: {error}",
            kind="output",
            happened="unknown",
        ) from error
    return await beside(b"".join, pieces) if size > 2**20 else b"".join(pieces)
