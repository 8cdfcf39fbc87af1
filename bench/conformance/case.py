"""The child's side: a program registers its cases, runs one of them and prints what it saw as one line of JSON.

It knows nothing but the standard library: the peers' environments hold the peers and nothing of ours.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
import os
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

Facts = dict[str, Any]
"""What one run of a case showed; which facts a row takes is said in `rows`."""
CALL_LIMIT = 600
"""So many calls, and whatever still goes on is stopped and reported as such. One peer stops by itself at 500."""
MARK = "conformance:"
"""Begins the line that holds the facts: peers may print what they like beside it."""


@dataclass(frozen=True)
class Case:
    """One program of one row. `option`: the peer's own setting that is not its default."""

    row: str
    run: Callable[[], Awaitable[Facts]]
    option: str = ""

    @property
    def name(self) -> str:
        return f"{self.row}/{self.run.__name__}"


@dataclass
class Cases:
    """The cases of one peer."""

    packages: Sequence[str]
    """Distributions whose versions are told."""

    def __post_init__(self) -> None:
        self.all: list[Case] = []

    def __call__(
        self, *rows: str, option: str = ""
    ) -> Callable[[Callable[[], Awaitable[Facts]]], Callable[[], Awaitable[Facts]]]:
        def add(run: Callable[[], Awaitable[Facts]]) -> Callable[[], Awaitable[Facts]]:
            self.all += [Case(row, run, option) for row in rows]
            return run

        return add

    def main(self) -> None:
        """`--list` tells the cases and versions; a case's name runs it."""
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        if sys.argv[1] == "--list":
            versions = {name: importlib.metadata.version(name) for name in self.packages}
            cases = [{"name": one.name, "row": one.row, "option": one.option} for one in self.all]
            told({"versions": versions, "cases": cases})
            return
        (chosen,) = (one for one in self.all if one.name == sys.argv[1])
        told(asyncio.run(_seen(chosen)))


async def _seen(case: Case) -> Facts:
    """Facts go out before the loop closes: a peer that leaves something behind may never let it close."""
    facts = await case.run()
    leave(facts)
    return facts


def told(facts: Facts) -> None:
    sys.stdout.write(f"\n{MARK}{json.dumps(facts)}\n")
    sys.stdout.flush()


def leave(facts: Facts) -> None:
    """Tell the facts and end the process at once, whatever is still running."""
    told(facts)
    os._exit(0)


class Calls(Counter[str]):
    """Counts calls by name; at the limit the run is stopped and told as still going."""

    def __init__(self) -> None:
        super().__init__()
        self.last_words: Facts = {}
        """What else to tell if the limit ends the run."""

    def made(self, name: str) -> int:
        """Count one; which it is."""
        self[name] += 1
        if self[name] >= CALL_LIMIT:
            leave({"still_going": CALL_LIMIT, **self.last_words})
        return self[name]


async def ended(running: Awaitable[Any], secs: float = 20.0) -> tuple[Any, str]:
    """What a run came to, and what it died of: empty if it did not; `no end` if it has to be given up."""
    task = asyncio.ensure_future(running)
    done, _ = await asyncio.wait({task}, timeout=secs)
    if not done:
        return None, "no end"
    if task.cancelled():
        return None, "CancelledError"
    error = task.exception()
    return (None, name_of(error)) if error is not None else (task.result(), "")


def name_of(error: BaseException) -> str:
    """The error's name; of a group that of the first in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return type(error).__name__
