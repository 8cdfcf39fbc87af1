"""Who calls, and what of it they may do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from replan.core.ids import TENANT
from replan.errors import InputError, NotAllowed

Scope = Literal["read", "run", "approve", "admin"]
SCOPES: frozenset[Scope] = frozenset(get_args(Scope))
_TENANT = re.compile(TENANT, re.ASCII)
_MEANS: dict[Scope, str] = {
    "read": "look at tasks, tools and what waits",
    "run": "submit tasks and step into them",
    "approve": "answer for a person",
    "admin": "keep the keys and limits of the tenant",
}


class Caller(NamedTuple):
    """Whoever calls, once that is known: a front end has seen to it."""

    who: str
    """As logs have it: `key:NAME`, or a token's subject."""
    tenant: str = ""
    """Whose tasks these are. Empty: those of the command and the library, and of a service that asks nobody who they are."""
    scopes: frozenset[Scope] = SCOPES
    key_id: str = ""
    """Of the key that it came with, where there was one."""
    traceparent: str = ""
    """The trace that this call belongs to (W3C Trace Context); empty: none."""

    @property
    def sees_all(self) -> bool:
        """Whoever keeps the service itself: the tasks of every tenant."""
        return not self.tenant and "admin" in self.scopes

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or "admin" in self.scopes


LOCAL = Caller("")
"""A service that asks nobody who they are, which may listen on loopback only."""


def need(caller: Caller, scope: Scope) -> None:
    """`NotAllowed` without that scope."""
    if not caller.may(scope):
        has = ", ".join(sorted(caller.scopes)) or "none"
        raise NotAllowed(f"this needs the scope {scope!r} ({_MEANS[scope]}); the key or token has: {has}")


def reader(caller: Caller) -> Caller:
    """Whoever may act on a task is shown what came of it."""
    return caller._replace(scopes=caller.scopes | {"read"})


def checked_scopes(scopes: Iterable[str]) -> frozenset[Scope]:
    """`InputError` names what is no scope."""
    wanted = frozenset(scopes)
    if wrong := sorted(wanted - SCOPES):
        raise InputError(f"{', '.join(map(repr, wrong))}: no scope; there are {', '.join(sorted(SCOPES))}")
    return frozenset(scope for scope in SCOPES if scope in wanted)


def checked_tenant(tenant: str) -> str:
    """The name of a tenant; empty is the one of the command and the library."""
    if tenant and not _TENANT.fullmatch(tenant):
        raise InputError(
            f"{tenant!r} cannot be the name of a tenant: at most 64 of a-z, 0-9, '-' and '_', a letter or digit first"
        )
    return tenant
