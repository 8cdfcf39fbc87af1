"""What people write to a task while it is driven."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from replan.errors import StoreError
from replan.run.session.dependencies import Parts
from replan.run.session.shielding import noticed

READ_AGAIN_SECS = 0.5


class People:
    """Notices at once that something was written, and has it read.

    Made before the log is read for the first time: what is written later is heard, what was there is read.
    """

    __slots__ = ("_failed", "_listening", "_parts", "_read", "_reading", "_told")

    def __init__(self, task_id: str, parts: Parts) -> None:
        self._parts = parts
        self._told = False
        self._read: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._failed: Callable[[Exception], None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._listening = parts.store.listen(task_id, self._tell)

    def attend(
        self, read: Callable[[], Coroutine[Any, Any, None]], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """From now on call `read` when there is something to read, never twice at a time.

        `failed` is told of any error of it but a `StoreError`, after which it is read again; else the event loop is.
        """
        self._read, self._failed = read, failed
        if self._told:
            self._tell()

    def close(self) -> None:
        """Read nothing more."""
        self._listening.close()
        self._read = None
        if self._reading is not None:
            self._reading.cancel()

    def _tell(self) -> None:
        self._told = True
        if self._read is not None and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._read_all(self._read))
            self._reading.add_done_callback(noticed)

    async def _read_all(self, read: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while self._told:
            self._told = False
            try:
                await read()
            except StoreError:  # a log that cannot be read just now is read again
                self._told = True
                await self._parts.clock.sleep(READ_AGAIN_SECS)
            except Exception as error:  # noqa: BLE001 - of whoever takes in what was said
                if self._failed is None:
                    about = {"message": "reading what people wrote has failed", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(about)
                else:
                    self._failed(error)
                return
