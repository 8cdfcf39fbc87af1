"""One source's list of tools, kept fresh: listed at the start, tried again when that failed, renewed when it changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from replan.beside import beside
from replan.core.data.schema.patterns import unread_told
from replan.core.data.validation import unread_patterns
from replan.core.secrets import with_secret_fields
from replan.core.tools.samples import sample_problem, with_seen_sample, without_sample
from replan.core.types import ToolSpec
from replan.core.words import in_digits
from replan.errors import ReplanError
from replan.ports import Reporting, Sampled, ToolSource, Watched
from replan.tools.schema_check import problem_of

FIRST_WAIT_SECS, LONGEST_WAIT_SECS = 1.0, 60.0
LONGEST_SAMPLE_SECS = 5.0
"""A source that takes longer to tell of its data tells nothing."""
LONGEST_LISTING_SECS = 300.0
"""A source that takes longer to list its tools is asked anew."""
_MANY = 100
"""Tools of one list that are looked at in the event loop."""
PROMPT_RENEWALS = 3
"""Changes one after another that are looked at as soon as they are told; then it takes ever longer."""


class Problem(NamedTuple):
    """A source that could not be listed or closed, or one of its tools that cannot be used."""

    source: str
    message: str
    tool: str | None = None
    works: bool = False
    """All of it can be used; what is told is what cannot be counted on."""

    def __str__(self) -> str:
        return (
            f"{self.source}: {self.tool}: {self.message}" if self.tool else f"{self.source}: {self.message}"
        )


class Listing:
    """The tools of one source. `changed` is called in the event loop whenever they are others than before."""

    def __init__(
        self,
        name: str,
        source: ToolSource,
        changed: Callable[[], None],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        samples: bool = True,
    ) -> None:
        """`samples`: what there is of the data behind the tools may be told."""
        self.name = name
        self.source = source
        self._samples = samples
        self.specs: tuple[ToolSpec, ...] | None = None
        """What was listed last; None: nothing yet."""
        self.problems: list[Problem] = []
        self._changed = changed
        self._sleep = sleep
        self._work: asyncio.Task[None] | None = None
        self._stale = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the list is kept; None: it is not."""
        self._watching = False
        self._unwatched: list[Problem] = []
        self._renewals = 0
        self._renewed = 0.0

    async def begin(self, wait_secs: float) -> None:
        """List the source, and wait for it so long; what takes longer, or fails, goes on in the background."""
        self._watch()
        self._loop = asyncio.get_running_loop()
        first = await self._within(wait_secs)
        if first is not None and not first.done():
            self.problems = [
                Problem(
                    self.name,
                    f"did not list its tools within {in_digits(wait_secs)} s; it is still waited for",
                )
            ]

    def _watch(self) -> None:
        if self._watching or not isinstance(self.source, Watched):
            return
        try:
            self.source.watch(self.renew)
        except Exception as error:  # noqa: BLE001 - its tools are there all the same
            words = f"changes of its list will not be noticed: {in_words(error)}"
            self._unwatched = [Problem(self.name, words)]
        else:
            self._watching, self._unwatched = True, []

    def renew(self) -> None:
        """The list may be another one: ask for it, once more if it is being asked for. From any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever would ask
                self._loop.call_soon_threadsafe(self._renew)

    def _renew(self) -> None:
        if self._loop is None:
            return
        if self._work is not None and not self._work.done():
            self._stale = True
        else:
            self._work = self._loop.create_task(self._keep(renewing=True))

    def _pause(self) -> float:
        """Seconds to wait before the list is asked for once more: some sources never cease to change theirs."""
        now = asyncio.get_running_loop().time()
        if now - self._renewed > 2 * LONGEST_WAIT_SECS:
            self._renewals = 0
        self._renewed = now
        self._renewals += 1
        many = self._renewals - PROMPT_RENEWALS
        return 0.0 if many <= 0 else min(LONGEST_WAIT_SECS, FIRST_WAIT_SECS * 2.0 ** min(many - 1, 10))

    async def stop(self) -> None:
        """Ask for nothing any more."""
        self._loop = None
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait({self._work}, timeout=1.0)

    async def _within(self, wait_secs: float) -> asyncio.Task[None] | None:
        """Start to keep the list; give the task once the first try has come to an end, or the time is up."""
        tried = asyncio.get_running_loop().create_future()
        self._work = asyncio.get_running_loop().create_task(self._keep(tried=tried))
        try:
            await asyncio.wait({tried, self._work}, timeout=wait_secs, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._work.cancel()
            raise
        return None if tried.done() else self._work

    async def _keep(self, *, renewing: bool = False, tried: asyncio.Future[None] | None = None) -> None:
        """List until it has succeeded, and once more for each change meanwhile."""
        wait, listed = FIRST_WAIT_SECS, False
        try:
            while not listed:
                if renewing and (pause := self._pause()):
                    await self._sleep(pause)
                self._stale = renewing = False
                listed = await self._list()
                if tried is not None and not tried.done():
                    tried.set_result(None)
                self._changed()
                if not listed:
                    await self._sleep(wait)
                    wait = min(LONGEST_WAIT_SECS, 2 * wait)
                elif self._stale:
                    renewing, listed = True, False
        finally:
            if tried is not None and not tried.done():
                tried.set_result(None)

    async def _list(self) -> bool:
        """One try: True if the list is there. One that was there before stays until there is another."""
        try:
            async with asyncio.timeout(LONGEST_LISTING_SECS) as limit:
                tools = await self.source.tools()
            problems = list(self._unwatched)
            if isinstance(tools, list | tuple) and len(tools) > _MANY:
                specs = tuple(await beside(_sane, self.name, tools, problems))
            else:
                specs = tuple(_sane(self.name, tools, problems))
            specs = await self._with_sample(specs) if self._samples else tuple(map(without_sample, specs))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self.problems = [self._failed("it was cut off from inside")]
            return False
        except Exception as error:  # noqa: BLE001 - whatever a source does, the others go on
            words = (
                f"no list within {in_digits(LONGEST_LISTING_SECS)} s" if limit.expired() else in_words(error)
            )
            self.problems = [self._failed(words)]
            return False
        self.specs = specs
        if isinstance(self.source, Reporting):
            with contextlib.suppress(Exception):
                problems += [Problem(self.name, *told) for told in self.source.problems()]
        self.problems = problems
        return True

    async def _with_sample(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """What a source tells of the data behind all of its tools goes with the first that reads; a source that cannot tell has none."""
        if not isinstance(self.source, Sampled) or not specs:
            return specs
        sample = None
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LONGEST_SAMPLE_SECS):
                sample = await self.source.data_sample()
        if sample is None or sample_problem(sample):
            return specs
        at = next((at for at, spec in enumerate(specs) if spec.effect == "reads"), 0)
        told = with_seen_sample(specs[at].put(sample=sample))
        return (*specs[:at], told, *specs[at + 1 :])

    def _failed(self, words: str) -> Problem:
        kept = "; what it had before is kept" if self.specs is not None else ""
        return Problem(self.name, f"could not list its tools: {words}{kept}")


def _sane(source: str, tools: Iterable[object], problems: list[Problem]) -> list[ToolSpec]:
    """The tools that can be used; why not the others goes to `problems`."""
    kept: dict[str, ToolSpec] = {}
    for spec in tools:
        if not isinstance(spec, ToolSpec):
            problems.append(Problem(source, f"left out: a {type(spec).__name__} is not a tool"))
            continue
        if not spec.id or spec.id != spec.id.encode("utf-8", "replace").decode():
            problems.append(Problem(source, f"left out: {spec.id!r} is not a name"))
            continue
        if wrong := problem_of(spec.parameters, of_parameters=True):
            problems.append(Problem(source, f"left out: its schema of parameters is bad: {wrong}", spec.id))
            continue
        if spec.id in kept:
            problems.append(Problem(source, "listed twice; the first one is taken", spec.id))
            continue
        if spec.output_schema is not None and (wrong := problem_of(spec.output_schema, of_parameters=False)):
            problems.append(Problem(source, f"its output schema is bad and ignored: {wrong}", spec.id))
            spec = spec.model_copy(update={"output_schema": None})
        if unread := _unread(spec):
            problems.append(Problem(source, unread, spec.id))
        if spec.sample is not None and (wrong := sample_problem(spec.sample)):
            problems.append(Problem(source, f"its sample is ignored: {wrong}", spec.id))
            spec = spec.put(sample=None)
        kept[spec.id] = with_seen_sample(with_secret_fields(spec))
    return list(kept.values())


def _unread(spec: ToolSpec) -> str:
    """What is not checked of a tool's values; empty if all is."""
    schemas = [schema for schema in (spec.parameters, spec.output_schema) if schema is not None]
    found = unread_told(pattern for schema in schemas for pattern in unread_patterns(schema))
    return f"not checked: {found}" if found else ""


def in_words(error: BaseException) -> str:
    if isinstance(error, ReplanError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
