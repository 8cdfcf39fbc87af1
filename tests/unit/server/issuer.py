"""An OpenID provider on loopback that answers as the test says, and signs what the test likes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

Answer = Callable[[asyncio.StreamWriter, str], Awaitable[None]]


@cache
def private_key(name: str, kind: str = "RS256") -> Any:
    """Made once a process: RSA takes its time."""
    match kind[:2]:
        case "ES":
            curve = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}[kind]
            return ec.generate_private_key(curve())
        case "Ed":
            return ed25519.Ed25519PrivateKey.generate()
        case "we":
            return rsa.generate_private_key(65537, 1024)
        case _:
            return rsa.generate_private_key(65537, 2048)


def public(name: str, kind: str = "RS256", **more: Any) -> dict[str, Any]:
    """As it stands in a key set."""
    algorithm = jwt.get_algorithm_by_name("RS256" if kind == "weak" else kind)
    data = json.loads(algorithm.to_jwk(private_key(name, kind).public_key()))
    data.pop("key_ops", None)
    return {"kid": name, "use": "sig", **data, **more}


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(
    claims: Any, name: str = "one", kind: str = "RS256", *, header: dict[str, Any] | None = None
) -> str:
    """A token with just this header, whatever it says; by default that of the key."""
    head = {"alg": kind, "kid": name, "typ": "JWT"} if header is None else header
    text = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims).encode())}"
    signer = jwt.get_algorithm_by_name("RS256" if kind == "weak" else kind)
    return f"{text}.{b64(signer.sign(text.encode(), private_key(name, kind)))}"


class Issuer:
    def __init__(self) -> None:
        self.url = ""
        self.keys: list[Any] = [public("one")]
        self.discovery: dict[str, Any] = {}
        self.asked: list[str] = []
        self.instead: Answer | None = None
        """Answers in its place."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                path = line.split()[1].decode()
                while (await reader.readline()).strip():
                    pass
                self.asked.append(path)
                if self.instead is not None:
                    await self.instead(writer, path)
                    return
                where = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.discovery}
                await send(writer, {"keys": self.keys} if path == "/keys" else where)
        except ConnectionError:
            pass
        finally:
            writer.close()


async def send(writer: asyncio.StreamWriter, value: Any, status: str = "200 OK", head: str = "") -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{head}\r\n".encode() + body)
    await writer.drain()


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    server = await asyncio.start_server(issuer.answer, "127.0.0.1", 0)
    issuer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield issuer
    finally:
        server.close()
