"""One document: what it gives, and a call of every operation that was accepted."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.openapi.judge import judging
from bench.openapi.values import NotMade, Values
from replan.errors import ReplanError
from replan.ports import ToolCall
from replan.tools import Catalog
from replan.tools.openapi import OpenApiSource

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


@dataclass
class Measured:
    """What came of a document."""

    name: str
    version: str
    found: int = 0
    accepted: int = 0
    secs: float = 0.0
    calls: int = 0
    valid: int = 0
    called: int = 0
    """Operations of which at least one request was judged."""
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    unjudged: Counter[str] = field(default_factory=Counter)
    not_made: list[str] = field(default_factory=list)
    problems: int = 0

    @property
    def judged(self) -> int:
        return self.valid + len(self.wrong)


def credentials(document: dict[str, Any]) -> dict[str, Any]:
    """A value for each security scheme."""
    schemes = document.get("components", {}).get("securitySchemes", {})
    return {
        name: "user:password" if scheme.get("scheme") == "basic" else "a-key-for-tests"
        for name, scheme in schemes.items()
    }


async def measure(name: str, document: dict[str, Any], *, seed: int, most: int | None) -> Measured:
    """List the document's tools, and call each twice: with what must be given, and with nearly everything."""
    found = Measured(name, str(document.get("openapi")))
    found.found = sum(
        method in item for item in document["paths"].values() if isinstance(item, dict) for method in METHODS
    )
    nameless = {
        operation.get("operationId")
        for path, item in document["paths"].items()
        for operation in item.values()
        if ("#" in path or "?" in path) and isinstance(operation, dict)
    }
    with judging(document) as (judge, url):
        source = OpenApiSource(document, server=url, auth=credentials(document), answers="declared")
        begun = time.perf_counter()
        await source.tools()
        found.secs = time.perf_counter() - begun
        catalog = Catalog([source])
        await catalog.open()
        found.problems = len(catalog.problems)
        for problem in source.problems():
            found.refused[problem.message.rpartition(" (")[0]] += 1
        specs = catalog.specs()
        found.accepted = len(specs)
        for spec in specs[:most]:
            judged = False
            for everything in (False, True):
                try:
                    parameters = Values(spec.parameters, seed, everything=everything).make()
                except NotMade as error:
                    found.not_made.append(f"{spec.id}: {error}")
                    continue
                judge.verdict = judge.unjudged = None
                found.calls += 1
                try:
                    await source.call(ToolCall(spec.id, parameters, "bench"))
                except ReplanError as error:
                    if judge.verdict is None and judge.unjudged is None:
                        found.wrong.append(f"{spec.id}: not sent: {str(error)[:300]}")
                        continue
                if spec.name in nameless:
                    found.unjudged["it does not see what a path has behind a # or ?"] += 1
                elif judge.verdict is None and judge.unjudged is None:
                    found.wrong.append(f"{spec.id}: nothing has arrived")
                elif judge.verdict is None:
                    found.unjudged[f"{judge.unjudged}"[:120]] += 1
                elif judge.verdict:
                    found.wrong.append(f"{spec.id}: {judge.verdict[:600]} | {judge.request[:600]}")
                else:
                    found.valid += 1
                    judged = True
            found.called += judged
        await source.aclose()
    return found
