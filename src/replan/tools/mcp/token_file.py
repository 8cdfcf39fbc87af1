"""OAuth tokens on disk: a file for each server, readable by its owner only."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import BaseModel, ValidationError

from replan.core.secrets import KnownSecrets

M = TypeVar("M", bound=BaseModel)


def default_token_file(url: str, client_id: str | None = None) -> Path:
    """In the user's state folder, named after the host and a digest of address and client: each has its own tokens."""
    from platformdirs import user_state_path

    host = re.sub(r"[^\w.-]", "_", urlsplit(url).hostname or "mcp")
    whose = url if client_id is None else f"{url}\n{client_id}"
    digest = hashlib.sha256(whose.encode()).hexdigest()[:12]
    return user_state_path("replan") / "mcp" / f"{host}-{digest}.json"


class TokenFile:
    """The library's `TokenStorage`. What cannot be read counts as not there: the person logs in again."""

    def __init__(self, path: Path, known: KnownSecrets | None = None) -> None:
        self._path = path
        self._known = KnownSecrets() if known is None else known
        """Told of every token that passes here."""

    async def get_tokens(self) -> OAuthToken | None:
        tokens = _as(OAuthToken, await self._get("tokens"))
        self._tell(tokens)
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tell(tokens)
        await self._set("tokens", tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _as(OAuthClientInformationFull, await self._get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._set("client", client_info)

    async def forget_client(self) -> None:
        """Drop the registered client, and the tokens that only it can renew."""
        await asyncio.to_thread(self._write, {})

    def _tell(self, tokens: OAuthToken | None) -> None:
        if tokens is not None:
            self._known.add(tokens.access_token, "access_token")
            self._known.add(tokens.refresh_token, "refresh_token")

    async def _get(self, key: str) -> Any:
        return (await asyncio.to_thread(self._read)).get(key)

    async def _set(self, key: str, value: Any) -> None:
        data = await asyncio.to_thread(self._read)
        data[key] = value.model_dump(mode="json", exclude_none=True)
        await asyncio.to_thread(self._write, data)

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, data: dict[str, Any]) -> None:
        """All or nothing, and never readable by others: `mkstemp` makes the file with mode 0600."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".tokens-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(data, file)
            os.replace(name, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _as(model: type[M], held: Any) -> M | None:
    try:
        return None if held is None else model.model_validate(held)
    except ValidationError:
        return None
