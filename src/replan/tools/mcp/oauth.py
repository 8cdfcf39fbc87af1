"""Tokens for HTTP servers: client credentials, or a person who logs in once in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import webbrowser
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl

from replan.core.words import in_digits
from replan.tools.mcp.servers import HttpServer, OAuth
from replan.tools.mcp.token_file import TokenFile, default_token_file

if TYPE_CHECKING:
    import httpx2

LOGIN_SECS = 300.0
_PAGE = b"<!doctype html><title>Replan</title><p>You are logged in. You can close this page."


class Person(Protocol):
    """Somebody who can open an address. The redirect address is known before a browser is needed."""

    async def redirect_uri(self) -> str:
        """The address that the authorization server sends the browser back to."""
        ...

    async def show(self, url: str) -> None:
        """Have the person open the address."""
        ...

    async def returned(self) -> str:
        """The whole address that the browser came back to, with its query."""
        ...

    async def aclose(self) -> None: ...


async def provider(server: HttpServer, told: OAuth) -> tuple[httpx2.Auth, Person | None]:
    """What authenticates the requests, and the person to be closed with it."""
    storage = TokenFile(told.token_file or default_token_file(server.url, told.client_id), server.known)
    if told.client_secret is not None and told.client_id is not None:
        credentials = ClientCredentialsOAuthProvider(
            server.url, storage, told.client_id, told.client_secret, scope=told.scope, issuer=told.issuer
        )
        return credentials, None
    registered = await storage.get_client_info()
    person: Person = told.person or Loopback(told.callback_port or _port_of(registered))
    redirect = await person.redirect_uri()
    metadata = OAuthClientMetadata(
        client_name="Replan",
        redirect_uris=[AnyUrl(redirect)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
        scope=told.scope,
    )
    if told.client_id is not None:
        await storage.set_client_info(
            OAuthClientInformationFull(
                **{**metadata.model_dump(), "client_id": told.client_id, "issuer": told.issuer}
            )
        )
    elif registered is not None and redirect not in map(str, registered.redirect_uris or []):
        await storage.forget_client()  # it could not bring the browser back here: another is registered

    async def came_back() -> AuthorizationCodeResult:
        try:
            async with asyncio.timeout(LOGIN_SECS):
                query = parse_qs(urlsplit(await person.returned()).query)
        except TimeoutError:
            raise OAuthFlowError(f"nobody has logged in within {in_digits(LOGIN_SECS)} seconds") from None
        if "error" in query:
            raise OAuthFlowError(
                f"the login was refused: {' '.join(query['error'] + query.get('error_description', []))}"
            )
        if "code" not in query:
            raise OAuthFlowError("the browser came back without a code")
        return AuthorizationCodeResult(
            code=query["code"][0], state=query.get("state", [None])[0], iss=query.get("iss", [None])[0]
        )

    return OAuthClientProvider(server.url, metadata, storage, person.show, came_back), person


def _port_of(registered: OAuthClientInformationFull | None) -> int:
    """The port that the client was registered with: a strict server takes the browser back to no other."""
    for uri in (registered.redirect_uris or []) if registered is not None else []:
        if uri.host == "127.0.0.1" and uri.port:
            return uri.port
    return 0


class Loopback:
    """Opens the browser of this machine, and waits for it on a port of the loopback (RFC 8252, 7.3)."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._came: asyncio.Future[str] | None = None

    async def redirect_uri(self) -> str:
        if self._server is None:
            try:
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
            except OSError:  # somebody else has the port by now
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/callback"

    async def show(self, url: str) -> None:
        self._came = asyncio.get_running_loop().create_future()
        print(f"Log in to go on: {url}", file=sys.stderr)
        await asyncio.to_thread(webbrowser.open, url)

    async def returned(self) -> str:
        if self._came is None:
            raise OAuthFlowError("no address was shown that somebody could come back from")
        return await self._came

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(10):
                line = (await reader.readuntil(b"\r\n")).decode("ascii", "replace")
            target = line.split(" ")[1] if line.count(" ") >= 2 else ""
            mine = urlsplit(target).path == "/callback"
            status = b"200 OK" if mine else b"404 Not Found"
            body = _PAGE if mine else b""
            writer.write(
                b"HTTP/1.1 " + status + b"\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n"
                b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
            )
            await writer.drain()
            if mine and self._came is not None and not self._came.done():
                self._came.set_result(target)
        writer.close()
