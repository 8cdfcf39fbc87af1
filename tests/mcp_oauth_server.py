"""An authorization server and an MCP server that asks for its tokens: the library's endpoints over memory.

It registers clients, hands out codes without asking anybody, exchanges and renews tokens, and gives tokens for client
credentials. Tokens are good for one hour, or for as many uses as `uses` says.
"""

from __future__ import annotations

import base64
import secrets
import time
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.lowlevel.server import Server
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from mcp_http_server import Tools


class Memory:
    """Clients, codes and tokens, and how often each thing was done."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.access: dict[str, AccessToken] = {}
        self.done: list[str] = []
        self.refuses = False

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.done.append("register")
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.done.append("authorize")
        if self.refuses:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_urlsafe(16),
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: Any, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        self.done.append("exchange")
        del self.codes[authorization_code.code]
        return self._give(client.client_id, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: Any, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.done.append("refresh")
        del self.refresh[refresh_token.token]
        return self._give(client.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)

    def _give(self, client_id: str, scopes: list[str]) -> OAuthToken:
        token, again = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.access[token] = AccessToken(
            token=token, client_id=client_id, scopes=scopes, expires_at=int(time.time()) + 3600
        )
        self.refresh[again] = RefreshToken(token=again, client_id=client_id, scopes=scopes)
        return OAuthToken(access_token=token, refresh_token=again, expires_in=3600)

    async def token_for_credentials(self, request: Request) -> JSONResponse:
        """The client credentials grant (RFC 6749, 4.4) with HTTP basic."""
        form = await request.form()
        told = base64.b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode()
        if form.get("grant_type") != "client_credentials" or told != "robot:robots-s3cret":
            return JSONResponse({"error": "invalid_client"}, 401)
        self.done.append("credentials")
        given = self._give("robot", [])
        return JSONResponse({"access_token": given.access_token, "token_type": "Bearer", "expires_in": 3600})


def person_app(memory: Memory, port: int) -> Any:
    """The MCP server and the authorization server in one, for the authorization code flow."""
    tools = Tools()
    server: Server[Any] = Server("guarded", version="1", on_list_tools=tools.list, on_call_tool=tools.call)
    base = f"http://127.0.0.1:{port}"
    return server.streamable_http_app(
        auth=AuthSettings(
            issuer_url=base,  # type: ignore[arg-type]
            resource_server_url=f"{base}/mcp",  # type: ignore[arg-type]
            validate_token_resource=False,
            client_registration_options=ClientRegistrationOptions(enabled=True),
        ),
        auth_server_provider=memory,
        token_verifier=ProviderTokenVerifier(memory),
    )


def robot_app(memory: Memory, port: int) -> Any:
    """The MCP server with an authorization server that knows client credentials only."""
    tools = Tools()
    server: Server[Any] = Server("guarded", version="1", on_list_tools=tools.list, on_call_tool=tools.call)
    base = f"http://127.0.0.1:{port}"

    async def metadata(request: Request) -> JSONResponse:
        return JSONResponse(
            {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        )

    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            return await memory.load_access_token(token)

    return server.streamable_http_app(
        auth=AuthSettings(
            issuer_url=base,  # type: ignore[arg-type]
            resource_server_url=f"{base}/mcp",  # type: ignore[arg-type]
            validate_token_resource=False,
        ),
        token_verifier=Verifier(),
        custom_starlette_routes=[
            Route("/.well-known/oauth-authorization-server", metadata),
            Route("/token", memory.token_for_credentials, methods=["POST"]),
        ],
    )
