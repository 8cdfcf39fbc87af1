"""The kinds of trouble that a world makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.recovery.world import Made, Trouble, World
from replan.errors import ToolCallError


@dataclass
class Dead(Trouble):
    """A tool that never works."""

    tool: str
    error: Callable[[], BaseException]

    def before(self, made: Made, world: World) -> BaseException | None:
        return self.error() if made.tool == self.tool else None


@dataclass
class Paced(Trouble):
    """A tool that wants to be left alone for some time when it is called first."""

    tool: str
    secs: float
    until: float | None = None

    def before(self, made: Made, world: World) -> BaseException | None:
        if made.tool != self.tool:
            return None
        now = asyncio.get_running_loop().time()
        if self.until is None:
            self.until = now + self.secs
        left = self.until - now
        if left <= 0:
            return None
        return ToolCallError("429 Too Many Requests", kind="http", status=429, retry_after=round(left, 3))


@dataclass
class Hangs(Trouble):
    """The first call of this content does nothing for a long time."""

    content: str
    secs: float
    hung: bool = False

    def hangs(self, made: Made) -> float:
        if made.content != self.content or self.hung:
            return 0.0
        self.hung = True
        return self.secs


@dataclass
class Cut(Trouble):
    """The first call of this content takes effect, and its answer gets lost."""

    content: str
    cut: bool = False

    def after(self, made: Made, world: World) -> BaseException | None:
        if made.content != self.content or self.cut:
            return None
        self.cut = True
        return ConnectionResetError("the connection was closed before the answer had come")


@dataclass
class Needs(Trouble):
    """Calls that fail until others have been made."""

    first: frozenset[str]
    """The contents that have to be there."""
    texts: Mapping[str, str]
    """What fails until then → what it says."""
    exception: Callable[[str], BaseException] = ToolCallError

    def before(self, made: Made, world: World) -> BaseException | None:
        if made.content not in self.texts or all(world.succeeded[each] for each in self.first):
            return None
        return self.exception(self.texts[made.content])


@dataclass
class Passing(Trouble):
    """The first calls of this content fail with an error that passes by itself."""

    content: str
    error: Callable[[], BaseException]
    times: int = 1
    met: int = field(default=0)

    def before(self, made: Made, world: World) -> BaseException | None:
        if made.content != self.content or self.met >= self.times:
            return None
        self.met += 1
        return self.error()
