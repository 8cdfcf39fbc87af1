"""Keys and limits as rows, the same in every database."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from replan.core.ids import TENANT
from replan.core.types import JsonObject
from replan.errors import InputError
from replan.ports import StoredKey

COLUMNS = "id, tenant, name, digest, scopes, created, expires, revoked, last_used"
NEWEST_FIRST = "ORDER BY created DESC, id DESC"
_MOST_NAME = 200
_ID, _DIGEST = re.compile("[0-9A-Za-z]{1,64}"), re.compile("[0-9a-f]{64}")


def check_tenant(tenant: str) -> None:
    """`InputError` for what no tenant is called."""
    if tenant and not re.fullmatch(TENANT, tenant):
        raise InputError(f"{tenant!r} cannot be the name of a tenant")


def values_of(key: StoredKey) -> tuple[Any, ...]:
    """A new key, in the order of `COLUMNS`. `InputError` for what no key has."""
    check_tenant(key.tenant)
    if not 0 < len(key.name) <= _MOST_NAME or not key.name.isprintable():
        raise InputError(f"a key's name has 1 to {_MOST_NAME} printable characters, not {key.name[:50]!r}")
    if not _ID.fullmatch(key.key_id) or not _DIGEST.fullmatch(key.digest):
        raise InputError("a key's id has 1 to 64 letters and digits, and its digest is a SHA-256 as hex")
    return key._replace(scopes=" ".join(key.scopes))  # type: ignore[arg-type]


def key_of(row: Sequence[Any]) -> StoredKey:
    return StoredKey._make((*row[:4], tuple(row[4].split()), *row[5:]))


def taken(key: StoredKey) -> InputError:
    whose = f"the tenant {key.tenant!r}" if key.tenant else "the service itself"
    return InputError(f"{whose} has a key {key.name!r}: revoke it first, or give this one another name")


def unknown(key_id: str) -> InputError:
    return InputError(f"there is no key with the id {key_id[:70]!r}")


def limits_text(limits: JsonObject) -> str:
    return json.dumps(limits, ensure_ascii=False, allow_nan=False)
