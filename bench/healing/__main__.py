"""Whether tasks heal with the built-in model: a parameter that a tool refuses, and a tool that is gone for good.

    python -m bench.healing [--runs 10] [--record FOLDER]     each kind, so many wordings; then one of them as often
    [--only ID]... [--again ID] [--cases FILE] [--show]

Whole tasks, from words to the judged answer, with the real model; nothing is scripted. The tasks were written down in
`cases.jsonl` before the first of them was run. Prints a line a run; takes an hour on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from examples.record import Kept

from bench.healing.measure import Row, run_case
from bench.healing.report import HEAD, alike, line, summary
from bench.planning.plans import read_lines, sha256
from replan.core.types import JsonObject
from replan.ports import Model

CASES = Path(__file__).with_name("cases.jsonl")
AGAIN = "firenze"
"""The task that is run unchanged, to see whether the same words give the same run."""


async def measure(given: argparse.Namespace, folder: Path) -> None:
    """What was asked for on the command line."""
    cases = read_lines(given.cases, given.only)
    model: Model = Kept()
    print(f"{given.cases.name}: SHA-256 {sha256(given.cases)}; {model.name}")
    with (folder / "rows.jsonl").open("a", encoding="utf-8") as file:

        async def run(case: JsonObject, name: str) -> Row:
            row = await run_case(case, model, folder / f"{name}.jsonl")
            course = [f"{'':14}{told}" for told in row.trail] if given.show or row.why else []
            print("\n".join([line(row), *course]), flush=True)
            file.write(row.line() + "\n")
            file.flush()
            return row

        totals = []
        for kind in dict.fromkeys(case["kind"] for case in cases):
            print(f"\n{kind}\n{HEAD}")
            these = [case for case in cases if case["kind"] == kind][: given.runs]
            rows = [await run(case, case["id"]) for case in these]
            totals.append(summary(kind, rows))
        again = [case for case in read_lines(given.cases) if case["id"] == given.again] * given.runs
        if again:
            print(f"\nthe same words again\n{HEAD}")
            totals.append(alike([await run(case, f"again-{at}") for at, case in enumerate(again)]))
    print("\n" + "\n".join(totals))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.healing", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--runs", type=int, default=10, help="how many of each kind")
    parser.add_argument("--record", type=Path, help="a folder that keeps what the model answered, replayable")
    parser.add_argument("--cases", type=Path, default=CASES)
    parser.add_argument("--only", action="append", default=[], help="a case's id; may be given several times")
    parser.add_argument("--again", default=AGAIN, help="the case that is run unchanged; empty: none")
    parser.add_argument(
        "--show", action="store_true", help="print the course of every run, not of wrong ones only"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = given.record or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        asyncio.run(measure(given, folder))


if __name__ == "__main__":
    main()
