"""Ids for the tools of many sources: unique, and the same however many of the sources are up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from replan.core.tools.families import families
from replan.core.types import ToolSpec
from replan.ports import ToolSource
from replan.tools.names import folded


class Listed(NamedTuple):
    """A tool as its source lists it. `source_name`: what the source is called here."""

    source_name: str
    source: ToolSource
    spec: ToolSpec


class Route(NamedTuple):
    """A tool under the id that it has here."""

    source_name: str
    source: ToolSource
    own_id: str
    spec: ToolSpec


def with_unique_names(sources: Sequence[ToolSource]) -> list[tuple[str, ToolSource]]:
    """Each source with its name; those that bear the same are told apart by a number."""
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


def routes_of(
    listed: Sequence[Listed],
    *,
    given: Mapping[tuple[str, str], str],
    absent: Mapping[str, Collection[str]],
) -> dict[str, Route]:
    """Every tool under an id of its own: its name, or `source.name` where several sources have it.

    `given`: the ids that tools have had before in this process, by source and name: they keep them, for plans are
    written in them. `absent`: the names that sources which cannot be listed now are known to have had: theirs are
    taken too.
    """
    claims = Counter(tool.spec.id for tool in listed)
    here = {(tool.source_name, tool.spec.id) for tool in listed}
    for name, own_ids in absent.items():
        claims.update(own_id for own_id in set(own_ids) if (name, own_id) not in here)
    kept = here & given.keys()
    reserved = set(given.values())
    routes: dict[str, Route] = {}
    for tool in listed:
        key = (tool.source_name, tool.spec.id)
        if key in kept:
            tool_id = given[key]
        else:
            wanted = tool.spec.id
            if claims[wanted] > 1 or wanted in reserved:
                wanted = f"{tool.source_name}.{tool.spec.id}"
            tool_id, number = wanted, 1
            while tool_id in routes or tool_id in reserved or (tool_id != tool.spec.id and tool_id in claims):
                number += 1
                tool_id = f"{wanted}-{number}"
        spec = tool.spec
        if spec.id != tool_id or not spec.source:
            spec = spec.put(id=tool_id, source=spec.source or tool.source_name)
        routes[tool_id] = Route(tool.source_name, tool.source, tool.spec.id, spec)
    return routes


def by_folded_name(routes: Iterable[Route]) -> dict[str, list[str]]:
    """Ids by every folded way to write them; what an id says wins over what aliases say."""
    ids: defaultdict[str, list[str]] = defaultdict(list)
    others: defaultdict[str, list[str]] = defaultdict(list)
    for source_name, _, own_id, spec in routes:
        form = folded(spec.id)
        ids[form].append(spec.id)
        own = form if own_id == spec.id else folded(own_id)
        forms = {own, folded(source_name) + own}
        if spec.name or spec.aliases:
            forms.update(map(folded, (spec.name, *spec.aliases)))
        forms.discard(form)
        forms.discard("")
        for other in forms:
            others[other].append(spec.id)
    return {**others, **ids}


def meant_by(
    name: str, routes: Mapping[str, Route], by_name: Mapping[str, Sequence[str]], away: Collection[str]
) -> ToolSpec | None:
    """The tool that a name means: an id or alias, else one that differs in case and separators only; None where that is no tool or several.

    `by_name`: `by_folded_name` of the routes. `away`: the ids of tools that are not here now: they mean no other tool.
    """
    if route := routes.get(name):
        return route.spec
    if name in away:
        return None
    fitting = [
        each.spec
        for each in routes.values()
        if name in each.spec.aliases or name == f"{each.source_name}.{each.own_id}"
    ]
    if not fitting:
        fitting = [routes[tool_id].spec for tool_id in by_name.get(folded(name), ())]
    return fitting[0] if len(fitting) == 1 else None


def with_families(
    routes: dict[str, Route], by_name: Mapping[str, Sequence[str]], away: Collection[str]
) -> dict[str, Route]:
    """The routes, each tool with its counterparts, if it has any."""

    def named(name: str) -> str | None:
        spec = meant_by(name, routes, by_name, away)
        return None if spec is None else spec.id

    found = families((route.spec for route in routes.values()), named)
    with_some = {
        tool_id: route._replace(spec=route.spec.put(counterparts=found[tool_id]))
        for tool_id, route in routes.items()
        if tool_id in found
    }
    return {**routes, **with_some} if with_some else routes
