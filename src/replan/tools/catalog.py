"""Many sources of tools as one: unique ids, tolerant names, and no source that stops the others."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

from replan.core.types import ToolSpec
from replan.errors import ToolCallError
from replan.ports import ToolCall, ToolSource
from replan.tools.names import folded, nearest
from replan.tools.schema_check import problem_of


class Problem(NamedTuple):
    """A source that could not be listed or closed, or one of its tools that cannot be used."""

    source: str
    message: str
    tool: str | None = None

    def __str__(self) -> str:
        return (
            f"{self.source}: {self.tool}: {self.message}" if self.tool else f"{self.source}: {self.message}"
        )


class _Route(NamedTuple):
    source: ToolSource
    own_id: str
    spec: ToolSpec


class Catalog:
    """Every tool of every source, under an id of its own; itself a `ToolSource`.

    A tool whose id is taken in another source too is called `source.name`, in both. Sources that bear the same name
    are told apart by a number, in the order in which they were given.
    """

    def __init__(
        self, sources: Sequence[ToolSource], *, name: str = "tools", list_timeout_secs: float = 30.0
    ) -> None:
        self.name = name
        self.problems: list[Problem] = []
        """What went wrong while listing and closing; renewed by `open`."""
        self._sources = _with_unique_names(sources)
        self._list_timeout_secs = list_timeout_secs
        self._opened = False
        self._routes: dict[str, _Route] = {}
        self._folded: dict[str, list[str]] = {}

    async def open(self) -> None:
        """List all sources side by side; opening again lists them anew."""
        listed = await asyncio.gather(*(self._list(name, source) for name, source in self._sources))
        self.problems = []
        usable: list[tuple[str, ToolSource, ToolSpec]] = []
        for (name, source), tools in zip(self._sources, listed, strict=True):
            if isinstance(tools, Problem):
                self.problems.append(tools)
                continue
            usable += [(name, source, spec) for spec in self._sane(name, tools)]
        self._routes = _routes(usable)
        self._folded = _by_folded_name(self._routes.values())
        self._opened = True

    def specs(self) -> list[ToolSpec]:
        """Every usable tool, in the order of the sources and of their lists."""
        return [route.spec for route in self._routes.values()]

    def resolve(self, name: str) -> ToolSpec | None:
        """The tool that a name means: an id or alias, else one that differs in case and separators only.

        None when there is no such tool, or when several would fit equally well.
        """
        if route := self._routes.get(name):
            return route.spec
        fitting = [each.spec for each in self._routes.values() if name in each.spec.aliases]
        if not fitting:
            fitting = [self._routes[tool_id].spec for tool_id in self._folded.get(folded(name), ())]
        return fitting[0] if len(fitting) == 1 else None

    def nearest(self, name: str, n: int = 3) -> list[str]:
        """The ids most like a name that `resolve` does not know, best first."""
        same = self._folded.get(folded(name), [])
        owners: defaultdict[str, list[str]] = defaultdict(list)
        for tool_id, route in self._routes.items():
            for written in (tool_id, route.own_id, *route.spec.aliases):
                owners[written].append(tool_id)
        like = [tool_id for written in nearest(name, owners, n=n * 3) for tool_id in owners[written]]
        return list(dict.fromkeys([*same, *like]))[:n]

    async def tools(self) -> Sequence[ToolSpec]:
        if not self._opened:
            await self.open()
        return self.specs()

    def call(self, call: ToolCall) -> Coroutine[Any, Any, Any]:
        """Make the call in the source that has the tool, under the source's own id for it."""
        return self._call(call) if self._opened else self._open_and_call(call)

    async def _open_and_call(self, call: ToolCall) -> Any:
        await self.open()
        return await self._call(call)

    def _call(self, call: ToolCall) -> Coroutine[Any, Any, Any]:
        route = self._routes.get(call.tool_id)
        if route is None and (spec := self.resolve(call.tool_id)):
            route = self._routes[spec.id]
        if route is None:
            near = self.nearest(call.tool_id)
            hint = f"; the nearest are: {', '.join(near)}" if near else ""
            raise ToolCallError(
                f"there is no tool {call.tool_id!r}{hint}", kind="unknown_tool", happened="no"
            )
        return route.source.call(
            call if call.tool_id == route.own_id else call._replace(tool_id=route.own_id)
        )

    async def aclose(self) -> None:
        """Close every source, whatever the others do."""
        ended = await asyncio.gather(
            *(source.aclose() for _, source in self._sources), return_exceptions=True
        )
        for (name, _), error in zip(self._sources, ended, strict=True):
            if isinstance(error, Exception):
                self.problems.append(Problem(name, f"could not be closed: {_in_words(error)}"))

    async def _list(self, name: str, source: ToolSource) -> Sequence[ToolSpec] | Problem:
        try:
            async with asyncio.timeout(self._list_timeout_secs) as limit:
                return await source.tools()
        except Exception as error:  # noqa: BLE001  (whatever a source does, the others go on)
            if limit.expired():
                return Problem(name, f"did not list its tools within {self._list_timeout_secs:g} s")
            return Problem(name, f"could not list its tools: {_in_words(error)}")

    def _sane(self, source: str, tools: Sequence[ToolSpec]) -> list[ToolSpec]:
        kept: dict[str, ToolSpec] = {}
        for spec in tools:
            if wrong := problem_of(spec.parameters, of_parameters=True):
                self.problems.append(
                    Problem(source, f"left out: its schema of parameters is bad: {wrong}", spec.id)
                )
                continue
            if spec.id in kept:
                self.problems.append(Problem(source, "listed twice; the first one is taken", spec.id))
                continue
            if spec.output_schema is not None and (
                wrong := problem_of(spec.output_schema, of_parameters=False)
            ):
                self.problems.append(
                    Problem(source, f"its output schema is bad and ignored: {wrong}", spec.id)
                )
                spec = spec.model_copy(update={"output_schema": None})
            kept[spec.id] = spec
        return list(kept.values())


def _with_unique_names(sources: Sequence[ToolSource]) -> list[tuple[str, ToolSource]]:
    taken: set[str] = set()
    named = []
    for source in sources:
        name, number = source.name, 1
        while name in taken:
            number += 1
            name = f"{source.name}-{number}"
        taken.add(name)
        named.append((name, source))
    return named


def _routes(usable: Sequence[tuple[str, ToolSource, ToolSpec]]) -> dict[str, _Route]:
    claims = Counter(spec.id for _, _, spec in usable)
    routes: dict[str, _Route] = {}
    for name, source, spec in usable:
        tool_id = spec.id if claims[spec.id] == 1 else f"{name}.{spec.id}"
        wanted, number = tool_id, 1
        while tool_id in routes or (tool_id != spec.id and tool_id in claims):
            number += 1
            tool_id = f"{wanted}-{number}"
        changed = {"id": tool_id, "source": spec.source or name}
        routes[tool_id] = _Route(source, spec.id, spec.model_copy(update=changed))
    return routes


def _by_folded_name(routes: Iterable[_Route]) -> dict[str, list[str]]:
    """Ids by every folded way to write them; what an id says wins over what aliases say."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    others: defaultdict[str, list[str]] = defaultdict(list)
    for _, own_id, spec in routes:
        ids[folded(spec.id)].append(spec.id)
        for form in {folded(own_id), folded(spec.name), *map(folded, spec.aliases)} - {folded(spec.id), ""}:
            others[form].append(spec.id)
    return {**others, **ids}


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
