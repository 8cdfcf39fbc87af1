"""What the HTTP libraries log (whole addresses, headers) is cleared of secrets."""

from __future__ import annotations

import logging
import weakref

from replan.core.secrets import KnownSecrets


class _Hiding(logging.Filter):
    """Takes secrets out of what the HTTP libraries log: whole addresses and headers."""

    def __init__(self) -> None:
        super().__init__()
        self.known: weakref.WeakSet[KnownSecrets] = weakref.WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        said = shown = record.getMessage()
        for known in list(self.known):
            shown = known.hide(shown)
        if shown != said:
            record.msg, record.args = shown, ()
        return True


_HIDING = _Hiding()
_LOGGERS = (
    "httpx2",
    "openai._base_client",
    "mcp.client.streamable_http",
    "mcp.client.sse",
    "mcp.client.auth",
)


def keep_from_logs(known: KnownSecrets) -> None:
    """What is known to be secret is in no record that the HTTP libraries log, as long as `known` lives."""
    _HIDING.known.add(known)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_HIDING)  # once, however often it is asked for
