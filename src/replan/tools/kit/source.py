"""What all of the kit's sources share: functions as tools, what is closed with them, and the time a call has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from replan.core.secrets import KnownSecrets
from replan.tools.functions.context import current
from replan.tools.functions.files import File
from replan.tools.functions.source import FunctionSource
from replan.tools.tee import Tee


def kept_of_more_than(size: int) -> Tee | None:
    """What stores all that a program writes, as it comes, where it is more than so many bytes; None outside of a task."""
    context = current()

    async def kept(pieces: AsyncGenerator[bytes, None]) -> File:
        return await context.keep(File(pieces, "text/plain"))

    return Tee(size, kept) if context.keeps else None


class KitSource(FunctionSource):
    """A `FunctionSource` that closes what its functions hold."""

    def __init__(
        self,
        functions: Sequence[Callable[..., Any]],
        name: str,
        close: Callable[[], Awaitable[None]] | None = None,
        secrets: Iterable[tuple[str, str]] = (),
    ) -> None:
        super().__init__(functions, name=name)
        self.secrets = KnownSecrets()
        self.secrets.add_all(secrets)
        self._close = close

    async def aclose(self) -> None:
        await super().aclose()
        if self._close is not None:
            await self._close()
