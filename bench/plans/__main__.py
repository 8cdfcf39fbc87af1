"""What plans of several kinds of tasks cost, beside what they cost before and beside agents.

    python -m bench.plans [--only TEXT]... [--json FILE] [--show]

Each task has tools with fixed data, and is done in four ways, with the same calls and effects in the end:

- before: by plans as they could be written without what the task's kind is named for. What a plan could not say was
  found out in one round, judged as not enough, reflected on, and written as values into the plan of the next round;
- now: by plans that say it;
- by the agents of LangGraph and Pydantic AI, on the same tools. Their model is a script that never errs: in each
  turn it makes all calls that can be made by then, and it works out, picks and phrases whatever has to be.

Nobody plans in earnest: what is compared is what a right plan costs, not whether a model finds it. Tokens are estimated
alike for all, from the bytes of what is asked (instructions, schemas or definitions of tools, messages) and answered;
nothing is taken for cached. A request takes 0.5 s, and 1 s more for 5,000 tokens that are read, or 60 that are written; all
runs are on a clock where only that and the tools take time. `to critical path`: the seconds in which no model was
asked, to what a program takes that makes the same calls by itself. A task is done where exactly the effects of that program
were had. Ends with 1 where something that was asked for does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from bench.plans.agents import PEERS
from bench.plans.measure import TASKS, measured
from bench.plans.replan_runs import BEFORE
from bench.plans.report import told, verdicts


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.plans", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", action="append", default=[], help="a part of a task's name, or of its kind")
    parser.add_argument("--json", type=Path, help="a file for the raw rows")
    parser.add_argument("--show", action="store_true", help="say why tasks were not done")
    given = parser.parse_args()
    here = [peer for peer in PEERS if peer.version()]
    versions = "".join(f", {peer.label} {peer.version()}" for peer in here)
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores{versions}\n")
    tasks = [
        task
        for task in TASKS
        if not given.only or any(one in f"{task.name} {task.kind}" for one in given.only)
    ]
    if not tasks:
        parser.error("no task is named so")
    rows = [row for task in tasks for row in measured(task, here)]
    print(told(rows, [peer.label for peer in here]))
    asked = verdicts(rows)
    print("", *asked, sep="\n")
    for row in rows:
        if row.wrong and (given.show or row.runner != BEFORE):
            print(f"{row.task}, {row.runner}: {row.wrong}")
    if given.json:
        given.json.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), "utf-8")
    return 0 if all(one.holds for one in asked) else 1


if __name__ == "__main__":
    sys.exit(main())
