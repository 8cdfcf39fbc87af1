"""How well tasks are finished when something in them goes wrong.

    python -m bench.recovery                     everything below, some minutes
    python -m bench.recovery --only injected     one fault of eleven kinds in recorded tasks of six collections
    python -m bench.recovery --only public       recorded failures, and recorded errors of HTTP services
    python -m bench.recovery --only peers        the injected faults, beside LangGraph, Pydantic AI and OpenAI Agents
    python -m bench.recovery --only beside       makespans with a step that fails and is recovered
    python -m bench.recovery --only reworded     one failing call in other words for ever: what the guard sees of it
    python -m bench.recovery --only silent       wrong answers without an error: who notices
    python -m bench.recovery --json FILE         the raw rows too

In place of a model stands an oracle that knows the right plan. It plans with exactly one fault and judges as it is;
about what fails it says the right thing with probability p, else nonsense: a remedy that does not fit the cause, a
placeholder, a tool that does not exist, the same call again, a wrong value, prose, or nothing. All runs are on a clock
where waiting takes no time: a tool call takes 1 s and a model call 2 s.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.makespan.graphs import read as read_dags
from bench.recovery import public, report
from bench.recovery.beside import Beside, beside
from bench.recovery.gold import COLLECTIONS, golds
from bench.recovery.inject import KINDS, inject
from bench.recovery.peers import NOT_THERE, PEERS, Peer
from bench.recovery.replan_runs import run
from bench.recovery.reworded import Reworded, reworded
from bench.recovery.reworded import told as reworded_told
from bench.recovery.row import Row
from bench.recovery.silent import Silent, silent
from bench.recovery.silent import told as silent_told
from bench.recovery.task import Case

RIGHTS = (1.0, 0.8, 0.5)
EACH = 25
PEERS_EACH = 6
PARTS = ("injected", "public", "peers", "beside", "reworded", "silent")


def injected(each: int, seed: int) -> list[Case]:
    """So many tasks of each collection with a fault of each kind, where a plan has a place for it."""
    cases = []
    for kind in KINDS:
        for collection in COLLECTIONS:
            those = sorted(name for name, gold in golds().items() if gold.collection == collection)
            random.Random(f"{seed} {collection} {kind}").shuffle(those)
            made = (case for name in those if (case := inject(golds()[name], kind, seed)) is not None)
            cases += [case for _, case in zip(range(each), made, strict=False)]
    return cases


def measured(cases: Iterable[Case], right: float, seed: int) -> list[Row]:
    return [run(case, right, seed).row for case in cases]


def part_injected(asked: Any) -> list[Row]:
    cases = injected(asked.each, asked.seed)
    rows: list[Row] = []
    for right in asked.right:
        those = measured(cases, right, asked.seed)
        print(report.kinds(f"injected faults, p = {right}", those), flush=True)
        print(report.wrong_ends(those) or "", flush=True)
        rows += those
    doubtful = [case for case in cases if case.kind in ("timeout", "fails after its effect")]
    lies = [run(case, 1.0, asked.seed, contrary=True).row for case in doubtful]
    print(report.kinds("calls in doubt, and a model that reads and says the contrary, quoting it", lies))
    print(report.verdicts(rows, [*rows, *lies]), end="\n\n")
    return rows


def part_public(asked: Any) -> list[Row]:
    cases, left_out = public.failures()
    rows: list[Row] = []
    print("recorded failures: what becomes of each kind")
    for kind, meaning in public.MEANING.items():
        print(f"    {kind:20}{sum(case.kind == kind for case in cases):5}  {meaning}")
    print(f"    {'left out':20}{len(left_out):5}  {public.UNRESTORED}")
    for right in asked.right:
        those = measured(cases, right, asked.seed)
        print(report.kinds(f"recorded failures, p = {right}", those), flush=True)
        print(report.wrong_ends(those) or "", flush=True)
        rows += those
    for right in asked.right:
        those = measured(public.http_errors(), right, asked.seed)
        print(report.kinds(f"recorded errors of HTTP services, p = {right}", those), flush=True)
        print(report.wrong_ends(those) or "", flush=True)
        rows += those
    print(report.verdicts(rows), end="\n\n")
    return rows


def part_peers(asked: Any) -> list[Row]:
    cases = injected(asked.peers_each, asked.seed)
    there: list[Peer] = []
    for peer in PEERS:
        version = peer.version()
        print(f"{peer.label}: {f'{version}; {peer.settings}' if version else 'not installed'}", flush=True)
        there += [peer] if version else []
    rows = []
    for right in asked.right:
        rows += measured(cases, right, asked.seed)
        for peer in there:
            rows += [peer.run(case, right, asked.seed) for case in cases]
    print(report.peers(rows, asked.right))
    print("what the peers' interfaces do not have:")
    for what, why in NOT_THERE.items():
        print(f"    {what}: {why}")
    print(flush=True)
    return rows


def part_beside(asked: Any) -> list[Beside]:
    dags = read_dags()
    found = [beside(dag, asked.seed) for dag in dags if asked.steps is None or len(dag.secs) <= asked.steps]
    print(report.beside(found), flush=True)
    return found


def part_reworded(asked: Any) -> list[Reworded]:
    found = reworded()
    print("\n".join(reworded_told(found)), end="\n\n", flush=True)
    return found


def part_silent(asked: Any) -> list[Silent]:
    found = silent()
    print("\n".join(silent_told(found)), end="\n\n", flush=True)
    return found


def lines(found: Sequence[Row | Beside | Reworded | Silent]) -> Iterator[dict[str, Any]]:
    for one in found:
        yield {"what": type(one).__name__.lower(), **asdict(one)}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description="Tasks in which something goes wrong, to their end.", prog="python -m bench.recovery"
    )
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--right", type=float, nargs="+", default=list(RIGHTS), help="probabilities p")
    parser.add_argument("--each", type=int, default=EACH, help="tasks of each collection and kind")
    parser.add_argument("--peers-each", type=int, default=PEERS_EACH, help="the same beside the peers")
    parser.add_argument("--steps", type=int, help="leave out graphs with more steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the raw rows, one JSON object a line"
    )
    asked = parser.parse_args(arguments)
    print(f"Python {platform.python_version()}, {platform.machine()}, seed {asked.seed}")
    print(report.LEGEND, end="\n\n", flush=True)
    found: list[Row | Beside | Reworded | Silent] = []
    parts = (part_injected, part_public, part_peers, part_beside, part_reworded, part_silent)
    for part, make in zip(PARTS, parts, strict=True):
        if asked.only in (None, part):
            found += make(asked)
    if asked.json is not None:
        text = "\n".join(json.dumps(one, ensure_ascii=False) for one in lines(found))
        asked.json.write_text(f"{text}\n", "utf-8")
        print(f"{len(found)} rows in {asked.json}")


if __name__ == "__main__":
    main(sys.argv[1:])
