"""The HTTP client of tools, which connects only where the rules allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from replan.errors import InputError
from replan.tools.network.addresses import AddressRules, Refusal, Resolve, refused

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
    refusal: Refusal = refused,
) -> httpx2.AsyncClient:
    """A client that connects only where `rules` allow.

    Each new connection looks its name up once, leaves out the addresses that are refused, and connects to one of the
    others by its number; certificates are verified against the name. Only http and https. Proxies and certificates
    named in the environment are not used (a proxy would look names up itself). A refusal is the `ToolCallError` of
    `refused`. `headers` go with every request, also to the hosts that a redirect leads to (but `Authorization`, which
    only its own host gets): keep other secrets out of them where redirects are followed. No cookies are kept.
    `verify`: other trusted certificates. `resolve`: another way to look names up. `refusal`: another error for what is refused.
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
    transport = GuardedTransport(rules or AddressRules(), resolve=resolve, verify=verify, refusal=refusal)
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
