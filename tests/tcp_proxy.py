"""A way to a server that can be cut, made mute or closed: a proxy that the tests of lost answers put in between."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self


class TcpProxy:
    """Passes bytes on, in a thread of its own, until it is told otherwise.

    `lose_answers(n)`: of the next `n` answers nothing comes back, and their connections are cut.
    `lose_questions(n)`: the next `n` questions do not arrive, and their connections are cut.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._to = (host, port)
        self._questions = self._answers = 0
        self.refuses = False
        self.mute = False
        """Questions arrive, and no answer comes back, while connections stay."""
        self.delay_secs = 0.0
        """So much later everything arrives, in both directions."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._ways: dict[asyncio.StreamWriter, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.cuts = 0

    def _call(self, work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def lose_answers(self, count: int = 1) -> None:
        self._answers += count

    def lose_questions(self, count: int = 1) -> None:
        self._questions += count

    def cut_all(self) -> None:
        """Reset every connection that there is."""
        self._call(self._cut_all())

    async def _cut_all(self) -> None:
        for writer in list(self._writers):
            self._cut(writer)

    def half_close_all(self, which: str) -> None:
        """Of every connection close one way: nothing more goes through, while the other way stays open. `which`: `"questions"` or `"answers"`."""
        self._call(self._half_close_all(which))

    async def _half_close_all(self, which: str) -> None:
        for writer, carries in list(self._ways.items()):
            if carries == which and writer.can_write_eof():
                self.cuts += 1
                with contextlib.suppress(Exception):
                    writer.write_eof()
                self._ways[writer] = "nothing"

    def _cut(self, writer: asyncio.StreamWriter) -> None:
        self.cuts += 1
        with contextlib.suppress(Exception):
            writer.transport.abort()

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self.refuses:
            back.transport.abort()
            return
        self._writers.add(back)  # from now on: whoever closes all closes this one
        try:
            server, on = await asyncio.open_connection(*self._to)
        except OSError:
            back.transport.abort()
            return
        self._writers |= {back, on}
        self._ways |= {back: "answers", on: "questions"}
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(
                self._pass(client, on, back, question=True), self._pass(server, back, on, question=False)
            )
        self._writers -= {back, on}
        for writer in (back, on):
            self._ways.pop(writer, None)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        other: asyncio.StreamWriter,
        *,
        question: bool,
    ) -> None:
        try:
            while data := await reader.read(65536):
                if question and self._questions:
                    self._questions -= 1
                    self._cut(writer)
                    self._cut(other)
                    return
                if not question and self._answers:
                    self._answers -= 1
                    self._cut(writer)
                    self._cut(other)
                    return
                if (self.mute and not question) or self._ways.get(writer) == "nothing":
                    continue
                if self.delay_secs:
                    await asyncio.sleep(self.delay_secs)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            for each in (writer, other):
                with contextlib.suppress(Exception):
                    each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        await self._cut_all()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cut_all()  # what came while it was closed
        await asyncio.sleep(0)
