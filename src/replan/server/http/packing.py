"""Compression of answers (gzip, RFC 1952), for whoever takes it."""

from __future__ import annotations

import re
import zlib
from typing import Any

from starlette.types import Scope

_GZIP = 31
"""Of zlib: the window, in the form of gzip."""
_NOTHING = re.compile(rb"q\s*=\s*0(?:\.0*)?")


def takes_gzip(scope: Scope) -> bool:
    """By `Accept-Encoding` (RFC 9110): a weight of nothing is a no, and what is named counts before `*`."""
    said: dict[bytes, bool] = {}
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            for each in value.lower().split(b","):
                coding, *more = (part.strip() for part in each.split(b";"))
                said[coding] = not any(_NOTHING.fullmatch(part) for part in more)
    return next((said[one] for one in (b"gzip", b"x-gzip", b"*") if one in said), False)


def packer() -> Any:
    return zlib.compressobj(4, zlib.DEFLATED, _GZIP)


def packed(body: bytes) -> bytes:
    packing = packer()
    return bytes(packing.compress(body) + packing.flush())
