"""procrastinate's way to the database: over the store's connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, LiteralString

from procrastinate import connector, exceptions

from replan.ports import Database


class Connector(connector.BaseAsyncConnector):
    """What a worker asks, asked within the store's thread. Errors are those of the store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def open_async(self, pool: Any = None) -> None:
        """The connections are the store's."""

    async def close_async(self) -> None:
        """Likewise."""

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        await self.database.ask(query, arguments)

    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        rows = await self.database.ask(query, arguments)
        if not rows:
            raise exceptions.NoResult
        return rows[0]

    async def execute_query_all_async(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        return await self.database.ask(query, arguments)

    async def listen_notify(self, on_notification: connector.Notify, channels: Iterable[str]) -> None:
        """Pass on what is heard, until it is cancelled."""
        heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        named = list(channels)

        def hear(channel: str, text: str) -> None:
            # An empty text: something may have been missed, so that one has to look.
            heard.put_nowait((channel, text or '{"type": "job_inserted", "job_id": 0}'))

        for channel in named:
            await self.database.listen(channel, lambda text, channel=channel: hear(channel, text))  # type: ignore[misc]
        try:
            while True:
                channel, text = await heard.get()
                await on_notification(channel=channel, payload=text)
        finally:
            for channel in named:
                self.database.deafen(channel)
