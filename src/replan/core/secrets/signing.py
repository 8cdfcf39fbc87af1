"""Signatures of messages that are sent to others, by the convention Standard Webhooks (v1: HMAC-SHA256)."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence

KEY_PREFIX = "whsec_"
KEY_BYTES = range(24, 65)
"""How long a key is, by the convention."""


def signing_key(text: str) -> bytes | None:
    """The key that a secret stands for; None if it is none."""
    try:
        key = base64.b64decode(text.removeprefix(KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) in KEY_BYTES else None


def signature(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """One of each key: a receiver takes the message if one of them is right."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
