"""The model and the sources of tools, asked whether they are there."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from replan.cli.doctor.findings import Finding
from replan.cli.terminal.words import clean, counted

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.config.sections import Llm
    from replan.ports import Endpoints
    from replan.run.service.resumable import CannotGoOn
    from replan.tools.catalog.catalog import Catalog
    from replan.tools.catalog.listing import Problem

_MOST_ASKED = 5
"""Endpoints of a service."""
_LOOK_SECS = 10.0
"""For the logs of tasks that have not ended."""


def models(settings: Settings) -> Iterator[Finding]:
    """A finding for the model, and one for the endpoint that stands in for it: while one of them answers, tasks go on."""
    from dataclasses import replace

    from replan.wiring import discovery_of, model_endpoint

    first = model(settings)
    fallback = model_endpoint(settings.llm, settings.llm.fallback_endpoint)
    if not fallback or not settings.llm.endpoint or discovery_of(settings).models is not None:
        yield first
        return
    second = _endpoint(fallback, settings.llm, "fallback_endpoint")
    for one, other in ((first, second), (second, first)):
        goes_on = one.state == "problem" and other.state != "problem"
        yield (
            replace(one, state="note", found=f"{one.found}; the other endpoint is asked") if goes_on else one
        )


def model(settings: Settings) -> Finding:
    from replan.cli.terminal.opening import built_in_model
    from replan.cli.terminal.words import size
    from replan.llm.local.weights import DEFAULT, KNOWN, find
    from replan.wiring import discovery_of, model_endpoint

    if (found := discovery_of(settings).models) is not None:
        return _discovered(found, settings)
    if endpoint := model_endpoint(settings.llm, settings.llm.endpoint):
        return _endpoint(endpoint, settings.llm)
    name = built_in_model(settings, None, None)
    if name is None:
        needed = importlib.util.find_spec("pydantic_ai") is not None
        named = settings.llm.default_model or ""
        if ":" not in named:
            told = f"{named!r} is a model of no provider, and no endpoint is configured"
            return Finding("model", "problem", told, "set [llm] endpoint, or write PROVIDER:MODEL")
        if needed:
            return Finding("model", "ok", f"{named} (not asked: it may cost money)")
        return Finding("model", "problem", f"{named} needs pydantic_ai", "pip install 'replan[models]'")
    file = find(name)
    runs = importlib.util.find_spec("xllamacpp") is not None
    if file is None:
        pull = "replan model pull" + ("" if name == DEFAULT else f" {name}")
        if not runs:
            pull = f"pip install 'replan[local]' && {pull}"
        return Finding(
            "model",
            "problem",
            f"no model is configured, and the weights of the built-in one ({size(KNOWN[name].size)}) are not here",
            f"{pull}, or set [llm] endpoint and default_model in config.toml",
        )
    if not runs:
        return Finding(
            "model", "problem", f"weights in {file}, but nothing to run them", "pip install 'replan[local]'"
        )
    return Finding("model", "ok", f"built in: {file}")


def _discovered(found: Endpoints, settings: Settings) -> Finding:
    """The first endpoint of the service that answers; what is wrong with the last of them."""
    import asyncio

    async def order() -> list[str]:
        await found.begin()
        try:
            return list(found.order())
        finally:
            await found.aclose()

    finding = Finding("model", "problem", f"no endpoint of {found.service} is known", "see registry")
    for url in asyncio.run(order())[:_MOST_ASKED]:
        finding = _endpoint(url, settings.llm)
        if finding.state != "problem":
            break
    return finding


def _endpoint(endpoint: str, llm: Llm, key: str = "endpoint") -> Finding:
    """Whether the endpoint answers, in the way in which a task asks it, and knows the model."""
    import asyncio

    from replan.llm import address
    from replan.llm.faults import EndpointError
    from replan.llm.providers import opening

    shown, model = opening.shown(endpoint), llm.default_model
    ca_file = Path(llm.ca_file).expanduser() if llm.ca_file else None
    try:
        listed = asyncio.run(opening.served_by(endpoint, llm.api_key, ca_file))
    except EndpointError as error:
        if error.status is None:
            return Finding("model", "problem", str(error), f"start it, or correct [llm] {key}")
        if error.refused:
            return Finding("model", "problem", str(error), "set APP_LLM_API_KEY")
        if model:
            return Finding("model", "note", f"{shown} answers, but lists no models (HTTP {error.status})")
        return Finding("model", "problem", str(error), "set [llm] default_model")
    known = ", ".join(listed[:8])
    if model and address.name_at(model) not in listed:
        return Finding(
            "model",
            "problem",
            f"{shown} does not know {model!r}",
            f"set [llm] default_model; it has: {known}",
        )
    if not model and len(listed) > 1 and not address.is_grpc(endpoint):  # a service chooses by itself
        return Finding(
            "model",
            "problem",
            f"{shown} serves {len(listed)} models",
            f"set [llm] default_model to one of {known}",
        )
    return Finding("model", "ok", f"{shown}, model {model or listed[0]}")


def tools(settings: Settings, specs: Sequence[str], where: str | Path | None = None) -> Iterator[Finding]:
    """A finding for each source, one for each that cannot be used, and one for each task in the database `where` that cannot
    go on with them."""
    import asyncio

    from replan.errors import ReplanError
    from replan.wiring import open_tools

    async def listed() -> tuple[dict[str, int], list[Problem], list[CannotGoOn]]:
        catalog = open_tools(list(specs), settings)
        try:
            await catalog.open()
            counts = Counter(spec.source for spec in catalog.specs())
            stuck = [] if where is None else await _cannot_go_on(where, settings, catalog)
            return dict(counts), catalog.problems, stuck
        finally:
            await catalog.aclose()

    try:
        counts, problems, stuck = asyncio.run(listed())
    except ReplanError as error:
        yield Finding("tools", "problem", str(error), "correct [tools] sources, or --tools")
        return
    if not counts and not problems:
        yield Finding(
            "tools", "note", "no source is configured", '[tools] sources = ["tools.py"], or --tools tools.py'
        )
    for source, count in counts.items():
        yield Finding(f"tools {source}", "ok", counted(count, "tool"))
    for problem in problems:
        if problem.works:
            todo = "nothing where that will do; else name one endpoint"
            yield Finding("tools", "note", str(problem), todo)
        else:
            yield Finding("tools", "problem", str(problem), "mend what it says, or leave the source out")
    for task in stuck:
        if task.kind != "tools" or specs:  # else they are taken from where the task's log says
            facts = {"kind": task.kind, "tasks": [task.task_id]}
            yield Finding(
                "tasks", "note", f"{task.task_id} cannot go on: {clean(task.why, 500)}", facts=facts
            )


async def _cannot_go_on(where: str | Path, settings: Settings, catalog: Catalog) -> list[CannotGoOn]:
    import asyncio
    import time

    from replan.errors import ReplanError
    from replan.run.service.resumable import cannot_go_on
    from replan.tools.catalog.own_tools import WithOwnTools
    from replan.wiring import open_store

    try:
        store = open_store(where, settings)
    except ReplanError:  # which was told as what is wrong with the database
        return []
    try:
        async with asyncio.timeout(_LOOK_SECS):
            return await cannot_go_on(store, WithOwnTools(catalog, catalog.rules), time.time)
    except (ReplanError, TimeoutError):
        return []
    finally:
        await store.aclose()
