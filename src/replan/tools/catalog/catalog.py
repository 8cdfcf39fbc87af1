"""Many sources of tools as one: unique ids, tolerant names, the user's rules, and no source that stops the others."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

from replan.core.calls.telling import unique_problem
from replan.core.own_tools.listed import OWN
from replan.core.secrets import KnownSecrets
from replan.core.tools.rules import (
    Named,
    ToolRules,
    admits,
    applied,
    rule_of,
    unused,
    verifier_problems,
)
from replan.core.types import VERIFY, ToolSpec
from replan.core.waits.tools import SOURCE
from replan.errors import ConfigError, ToolCallError
from replan.ports import Discreet, Gate, ToolCall, ToolSource
from replan.tools.catalog.limiter import Gate as LimitsGate
from replan.tools.catalog.listing import Listing, Problem, in_words
from replan.tools.catalog.routes import (
    Listed,
    Route,
    by_folded_name,
    meant_by,
    routes_of,
    with_families,
    with_unique_names,
)
from replan.tools.names import folded, nearest

__all__ = ["Catalog", "Problem"]


_OWN = [Named(spec.id, SOURCE, spec.id) for spec in OWN]
_MOST_MEANT, _LONGEST_MEANT = 10_000, 200
"""Names whose meanings are kept, and the characters of one."""
_MOST_GONE = 1000
"""So many tools that are not there any more keep their ids."""


class Catalog:
    """Every tool of every source, under an id of its own; itself a `ToolSource`.

    A tool whose id is taken in another source too is called `source.name`, in both. Sources that bear the same name
    are told apart by a number, in the order in which they were given. Once a tool has an id, it keeps it.

    A source that cannot be listed is reported in `problems` and tried again in the background; one that says that its
    list has changed is listed anew. `rules`: what the user has decided.
    """

    def __init__(
        self,
        sources: Sequence[ToolSource],
        *,
        name: str = "tools",
        rules: ToolRules | None = None,
        list_timeout_secs: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self._remembered: dict[str, Collection[str]] = {}
        self.rules = rules or ToolRules()
        self._listings = [
            Listing(name, source, self._rebuild, sleep=sleep, samples=self.rules.samples)
            for name, source in with_unique_names(sources)
        ]
        self._list_timeout_secs = list_timeout_secs
        self._opened = False
        self._routes: dict[str, Route] = {}
        self._folded: dict[str, list[str]] = {}
        self._meant: dict[str, ToolSpec | None] = {}
        """What names mean that were looked up since the routes were made."""
        self._given: dict[tuple[str, str], str] = {}
        self._away: set[str] = set()
        """Ids of tools that are not here now, or may not be used: they mean no other tool."""
        self._denied: set[str] = set()
        self._named: Mapping[str, Named] = {}
        """Ids of tools that are here, and that the rules do not admit."""
        self._gates: dict[str, LimitsGate | None] = {}
        self._own_problems: list[Problem] = []
        self._bad_verifiers: list[tuple[str, str]] = []
        self._close_problems: list[Problem] = []
        self._watchers: list[Callable[[], None]] = []
        self.secrets = KnownSecrets(*(source.secrets for source in sources if isinstance(source, Discreet)))
        """The keys and passwords of all sources."""

    @property
    def problems(self) -> list[Problem]:
        """What is wrong with sources and their tools, as of now."""
        told = [problem for listing in self._listings for problem in listing.problems]
        return [*told, *self._own_problems, *self._close_problems]

    @property
    def remembered(self) -> Mapping[str, Collection[str]]:
        """The names of the tools that each source had when it was last listed."""
        return self._remembered

    def named(self, tool_id: str) -> Named | None:
        """The names by which a pattern may mean a tool that is here."""
        return self._named.get(tool_id)

    def denied(self, name: str) -> bool:
        """True for the id of a tool that is here and may not be used."""
        return name in self._denied

    async def open(self, remembered: Mapping[str, Collection[str]] | None = None) -> None:
        """List all sources side by side; opening again lists them anew.

        `remembered`: the names that the sources had before, so that ids are the same when one of them is down.
        `ConfigError` for a verifier of the configuration that cannot be used among the tools that there are.
        """
        if remembered is not None:
            self._remembered = dict(remembered)
        await asyncio.gather(*(listing.stop() for listing in self._listings))
        self._given = {}
        await asyncio.gather(*(listing.begin(self._list_timeout_secs) for listing in self._listings))
        self._opened = True
        self._rebuild()
        if self._bad_verifiers and all(listing.specs is not None for listing in self._listings):
            words = [f"[tools.rules] verify of {tool!r}: {problem}" for tool, problem in self._bad_verifiers]
            raise ConfigError("; ".join(words))

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` in the event loop when the tools may be others than those last listed."""
        self._watchers.append(changed)

    def _rebuild(self) -> None:
        """Take the lists of all sources as they are now."""
        if not self._opened:
            return
        listed = [
            Listed(listing.name, listing.source, spec)
            for listing in self._listings
            for spec in listing.specs or ()
        ]
        absent = {
            listing.name: self._remembered.get(listing.name, ())
            for listing in self._listings
            if listing.specs is None
        }
        routes = routes_of(listed, given=self._given, absent=absent)
        self._keep({(route.source_name, route.own_id): tool_id for tool_id, route in routes.items()})
        named = {tool_id: Named(tool_id, each.source_name, each.own_id) for tool_id, each in routes.items()}
        complete = all(listing.specs is not None for listing in self._listings)
        self._own_problems = [
            Problem(self.name, f"the pattern {pattern!r} of your configuration fits no tool")
            for pattern in (unused(self.rules, [*named.values(), *_OWN]) if complete else ())
        ]
        made: dict[str, Route] = {}
        denied: set[str] = set()
        for tool_id, route in routes.items():
            if not admits(self.rules, named[tool_id]):
                denied.add(tool_id)
                continue
            rule = rule_of(self.rules, named[tool_id])
            if rule is not None:
                route = route._replace(spec=applied(rule, route.spec))
            if tool_id not in self._gates:
                self._gates[tool_id] = LimitsGate.of(rule)
            made[tool_id] = route
        self._denied, self._named = denied, named
        away = {*self._given.values(), *(own_id for own_ids in absent.values() for own_id in own_ids)}
        by_name = by_folded_name(made.values())
        self._away, self._folded = away - made.keys(), by_name
        self._routes = with_families(
            made, by_name, self._away
        )  # as one: a plan may be checked in a thread meanwhile
        self._meant = {}
        self._bad_verifiers = verifier_problems(self.specs(), self.resolve, self.nearest)
        self._own_problems += [
            Problem(self.name, f"verify: {problem}", tool) for tool, problem in self._bad_verifiers
        ]
        self._own_problems += [
            Problem(self.name, f"substitutes: there is no tool {name!r}", spec.id)
            for spec in (self.specs() if complete else ())
            for name in spec.substitutes
            if self.resolve(name) is None
        ]
        self._own_problems += [
            Problem(self.name, problem, spec.id)
            for spec in self.specs()
            if spec.unique_by and (problem := unique_problem(spec))
        ]
        for listing in self._listings:
            if listing.specs is not None:
                self._remembered[listing.name] = tuple(spec.id for spec in listing.specs)
        for changed in self._watchers:
            changed()

    def _keep(self, here: dict[tuple[str, str], str]) -> None:
        """Remember the ids of the tools that are here, and of the latest that are gone; a list may change for ever."""
        gone = [(key, tool_id) for key, tool_id in self._given.items() if key not in here]
        self._given = {**dict(gone[-_MOST_GONE:]), **here}
        if len(gone) > _MOST_GONE:
            kept = set(self._given.values())
            self._gates = {tool_id: gate for tool_id, gate in self._gates.items() if tool_id in kept}

    def specs(self) -> list[ToolSpec]:
        """Every usable tool, in the order of the sources and of their lists."""
        return [route.spec for route in self._routes.values()]

    def resolve(self, name: str) -> ToolSpec | None:
        """The tool that a name means: an id or alias, else one that differs in case and separators only.

        None when there is no such tool, when several would fit equally well, or when it is the id of one that is
        not here now.
        """
        known = self._meant  # another one as soon as the routes are
        if name in known:
            return known[name]
        found = meant_by(name, self._routes, self._folded, self._away)
        if len(known) < _MOST_MEANT and len(name) <= _LONGEST_MEANT:
            known[name] = found
        return found

    def nearest(self, name: str, n: int = 3) -> list[str]:
        """The ids most like a name that `resolve` does not know, best first."""
        same = self._folded.get(folded(name), [])
        owners: defaultdict[str, list[str]] = defaultdict(list)
        for tool_id, route in self._routes.items():
            for written in (tool_id, route.own_id, *route.spec.aliases):
                owners[written].append(tool_id)
        like = [tool_id for written in nearest(name, owners, n=n * 3) for tool_id in owners[written]]
        return list(dict.fromkeys([*same, *like]))[:n]

    def gate(self, tool_id: str) -> Gate | None:
        """The limits that the user has set for a tool."""
        return self._gates.get(tool_id)

    async def tools(self) -> Sequence[ToolSpec]:
        if not self._opened:
            await self.open()
        return self.specs()

    def call(self, call: ToolCall) -> Coroutine[Any, Any, Any]:
        """Make the call in the source that has the tool, under the source's own id for it."""
        if not self._opened:
            return self._open_and_call(call)
        route = self._routes.get(call.tool_id)
        if route is not None and route.own_id == call.tool_id and route.spec.effect == call.effect:
            return route.source.call(call)
        return self._call(call)

    async def _open_and_call(self, call: ToolCall) -> Any:
        await self.open()
        return await self._call(call)

    def _call(self, call: ToolCall) -> Coroutine[Any, Any, Any]:
        name, verifies, _ = call.tool_id.partition(VERIFY)
        route = self._routes.get(name)
        if route is not None and verifies:  # the function that the tool was given to verify with
            return route.source.call(call._replace(tool_id=route.own_id + VERIFY))
        if route is None and (spec := self.resolve(call.tool_id)):
            route = self._routes[spec.id]
        if route is None:
            near = self.nearest(call.tool_id)
            hint = f"; the nearest are: {', '.join(near)}" if near else ""
            raise ToolCallError(
                f"there is no tool {call.tool_id!r}{hint}", kind="unknown_tool", happened="no"
            )
        if route.own_id != call.tool_id or route.spec.effect != call.effect:
            call = call._replace(tool_id=route.own_id, effect=route.spec.effect)
        return route.source.call(call)

    async def aclose(self) -> None:
        """Close every source, whatever the others do."""
        await asyncio.gather(*(listing.stop() for listing in self._listings))
        ended = await asyncio.gather(
            *(_close(listing.source) for listing in self._listings), return_exceptions=True
        )
        self._close_problems = [
            Problem(listing.name, f"could not be closed: {in_words(error)}")
            for listing, error in zip(self._listings, ended, strict=True)
            if isinstance(error, Exception)
        ]


async def _close(source: ToolSource) -> None:
    await source.aclose()
