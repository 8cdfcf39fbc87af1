"""An export reads what it writes as an import would: what none could take in must not be all that is left of a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from replan.errors import InputError
from replan.store.transfer.incoming import check_readable

_MOST_AHEAD = 4
"""Pieces that are written and yet to be read."""


class Rereading:
    """Is given the file piece by piece; `done` when it is whole. `InputError` says why it would not be taken in."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_AHEAD)
        self._reading = asyncio.ensure_future(check_readable(self._given()))

    async def take(self, piece: bytes | None) -> None:
        giving = asyncio.ensure_future(self._pieces.put(piece))
        try:
            await asyncio.wait({giving, self._reading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            giving.cancel()
        if self._reading.done():
            self._result()

    async def done(self) -> None:
        """There is no more."""
        await self.take(None)
        await asyncio.wait({self._reading})
        self._result()

    async def aclose(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _result(self) -> None:
        try:
            self._reading.result()
        except InputError as error:
            raise InputError(
                f"the tasks are still here: no database would take in what was exported of them ({error})"
            ) from None

    async def _given(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece
