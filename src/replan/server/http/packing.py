"""Compression of answers (gzip, RFC 1952), for whoever takes it."""

from __future__ import annotations

import zlib
from typing import Any

from starlette.types import Scope

_GZIP = 31
"""Of zlib: the window, in the form of gzip."""


def takes_gzip(scope: Scope) -> bool:
    return any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])


def packer() -> Any:
    return zlib.compressobj(4, zlib.DEFLATED, _GZIP)


def packed(body: bytes) -> bytes:
    packing = packer()
    return bytes(packing.compress(body) + packing.flush())
