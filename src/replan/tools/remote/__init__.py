"""Tools of another process, over HTTP or gRPC: `RemoteSource` takes them, `serve` offers them.

The protocol is in docs/reference/tool-service.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replan.tools.remote.source import RemoteSource, load

if TYPE_CHECKING:
    from replan.tools.remote.server import Tls, serve

__all__ = ["RemoteSource", "Tls", "load", "serve"]


def __getattr__(name: str) -> Any:
    if name in ("serve", "Tls"):
        from replan.tools.remote import server

        return getattr(server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
