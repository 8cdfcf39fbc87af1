"""How the service stands with registries: what `/ready` says of them, and the registration while it serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from replan.ports import Endpoints

if TYPE_CHECKING:
    from replan.discovery.consul.registration import Registration


def found(service: Endpoints) -> Callable[[], Awaitable[str]]:
    """How the search for a service stands. That its registry does not answer makes nothing unready: what is known is asked."""

    async def check() -> str:
        state = service.state()
        instances = (
            f"{state.instances} {'instance' if state.instances == 1 else 'instances'} of {state.service}"
        )
        return f"{instances}; {state.registry}: {state.problem}" if state.problem else instances

    return check


def stands(registration: Registration) -> Callable[[], Awaitable[str]]:
    """How the registration of this service stands; who knows its address needs none."""

    async def check() -> str:
        return f"{registration.name}: {registration.problem}" if registration.problem else "registered"

    return check
