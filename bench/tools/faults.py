"""The fault table of the tests as numbers: what the step got, when, and whether the others went on."""

from __future__ import annotations

import asyncio
import importlib
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2] / "tests"
OTHERS = {"first", "second", "third"}


async def rows() -> list[dict[str, Any]]:
    """A row for each source and fault that there can be."""
    sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "contract"), str(TESTS)]
    import fault_table

    warnings.simplefilter("ignore", ResourceWarning)
    found: list[dict[str, Any]] = []
    for path in sorted((TESTS / "integration").glob("faults_*.py")):
        module = importlib.import_module(path.stem)
        for fault in fault_table.ROWS:
            made = module.FAULTS[fault]
            if not isinstance(made, str):
                found.append({"source": module.SOURCE, "fault": fault} | await _row(fault_table, made))
    return found


async def _row(fault_table: Any, made: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        async with made() as broken:
            records, fault, secs = await fault_table.observe(broken, Path(folder))
    completed = {record.event.step_id for record in records if record.event.type == "step_completed"}
    row: dict[str, Any] = {
        "others": completed >= OTHERS,
        "secs": round(secs, 3),
        "deadline": fault_table.DEADLINE,
    }
    row |= _calls(records)
    if not broken.lists:
        return row | {"kind": "not listed, reported", "happened": "no", "secs": None, "right": row["others"]}
    if fault is None:
        return row | {"kind": "succeeded", "happened": None, "right": row["others"] and not broken.kinds}
    return row | {
        "kind": fault.kind,
        "happened": fault.happened,
        "right": row["others"]
        and fault.kind in broken.kinds
        and broken.happened in (None, fault.happened)
        and secs <= fault_table.DEADLINE + 1.0,
    }


def _calls(records: list[Any]) -> dict[str, Any]:
    """How many calls the faulty step made, and how long the longest of them took: the deadline is that of a call."""
    begun, took = 0.0, []
    for record in records:
        if getattr(record.event, "step_id", None) != "faulty":
            continue
        if record.event.type == "call_started":
            begun = record.ts
        elif begun and record.event.type in (
            "call_failed",
            "call_completed",
            "step_failed",
            "step_completed",
        ):
            took.append(record.ts - begun)
            begun = 0.0
    return {"calls": len(took), "longest_call": round(max(took, default=0.0), 3)}


def show(found: list[dict[str, Any]]) -> None:
    print(
        f"\n{'source':18}{'fault':16}{'the step got':22}{'happened':10}{'after, s':>9}{'deadline':>9}{'calls':>6}{'longest':>8}  others went on"
    )
    for row in found:
        secs = "" if row["secs"] is None else f"{row['secs']:.2f}"
        wrong = "" if row["right"] else "  NOT AS ASKED"
        print(
            f"{row['source']:18}{row['fault']:16}{row['kind']:22}{row['happened'] or '–':10}{secs:>9}"
            f"{row['deadline']:>9.1f}{row['calls']:>6}{row['longest_call']:>8.2f}  {'yes' if row['others'] else 'NO'}{wrong}"
        )
    right = sum(row["right"] for row in found)
    print(
        f"{right} of {len(found)} as asked: a typed failure within the deadline + 1 s, and the others went on"
    )


def main() -> list[dict[str, Any]]:
    found = asyncio.run(rows())
    show(found)
    return found
