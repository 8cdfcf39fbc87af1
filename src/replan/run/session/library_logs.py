"""What the libraries that make connections log (whole addresses, headers, bodies) is cleared of secrets."""

from __future__ import annotations

import logging
import traceback
import weakref

from replan.core.secrets import KnownSecrets

_ROOTS = (
    "httpx2", "httpcore2", "httpx", "httpcore", "urllib3", "aiohttp", "requests", "websockets",
    "openai", "anthropic", "google_genai", "botocore", "mcp", "client", "grpc",
)  # fmt: skip
"""Loggers of HTTP clients, SDKs and connections, each with all below it. `client` is the MCP SDK's."""
_BELOW = (
    *(f"{core}.{part}" for core in ("httpcore2", "httpcore") for part in ("connection", "http11", "http2", "proxy", "socks")),
    "openai._base_client", "urllib3.connectionpool", "urllib3.connection", "aiohttp.client", "grpc._cython.cygrpc",
    "mcp.client.streamable_http", "mcp.client.sse", "mcp.client.auth", "mcp.client.stdio", "botocore.endpoint",
)  # fmt: skip
"""Those that their libraries make only when they are loaded, perhaps after a task has begun."""


class _Hiding(logging.Filter):
    """Takes what is known to be secret to anything that lives in this process out of a record."""

    def __init__(self) -> None:
        super().__init__()
        self.known: weakref.WeakSet[KnownSecrets] = weakref.WeakSet()
        self.loggers = -1
        """How many loggers there were when the filter was given to those that it is for."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
        except (TypeError, ValueError, LookupError):  # the handler complains of such a line
            return True
        shown = self._hidden(said)
        if shown != said:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[0] is not None:
            told = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (clean := self._hidden(told)) != told:  # the exception itself would be told again
                record.exc_info, record.exc_text = None, clean
        if record.stack_info:
            record.stack_info = self._hidden(record.stack_info)
        return True

    def _hidden(self, text: str) -> str:
        for known in list(self.known):
            if known.adds_to(self.known):
                text = known.hide(text)
        return text


_HIDING = _Hiding()


def keep_from_logs(known: KnownSecrets) -> None:
    """What is known to be secret is in no record that such a library logs, as long as `known` lives."""
    _HIDING.known.add(known)
    there = logging.root.manager.loggerDict
    if len(there) == _HIDING.loggers:
        return
    below = [name for name in list(there) if name.partition(".")[0] in _ROOTS]
    for name in {*_ROOTS, *_BELOW, *below}:
        logging.getLogger(name).addFilter(_HIDING)  # once, however often it is asked for
    _HIDING.loggers = len(there)
