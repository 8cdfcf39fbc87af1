"""What a step costs here beside another checkout of Replan, in CPU time: pairs in turn, so that a noisy minute hits both.

    git worktree add ../before COMMIT
    python -m bench.paired ../before [--pairs 5] [--synchronous full]

The graphs of `bench.overhead` with a tool that does nothing, every event stored (SQLite, synchronous = normal unless told). Of each
process the best of 15 runs of 100 steps counts; the medians over the pairs are printed, and their ratio.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
ONE = """
import asyncio, json, sys, tempfile, time
from bench.overhead import nothing, plan_of
try:
    from bench.rows import chain, wide
except ImportError:  # an older checkout
    from bench.overhead import chain, wide
from replan import Replan
from replan.config import Settings

async def main():
    settings = Settings.model_validate(
        {"store": {"synchronous": sys.argv[1]}, "orchestrator": {"parallel_max_concurrent": 10}}
    )
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        async with Replan(tools=[nothing], db=folder + "/r.db", settings=settings, evaluation="steps") as replan:
            for name, layers in (("wide", wide()), ("chain", chain())):
                spent = []
                for _ in range(20):
                    before = time.process_time()
                    assert (await replan.run("nothing", plan=plan_of(layers))).is_success
                    spent.append(time.process_time() - before)
                best[name] = min(spent[5:]) * 10
    print(json.dumps(best))

asyncio.run(main())
"""


def measured(tree: Path, synchronous: str) -> dict[str, float]:
    """Milliseconds of CPU a step, by graph."""
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}"}
    ran = subprocess.run(
        [sys.executable, "-c", ONE, synchronous],
        cwd=tree,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--synchronous", choices=["normal", "full"], default="normal")
    given = parser.parse_args()
    trees = (given.before.resolve(), HERE)
    pairs = [[measured(tree, given.synchronous) for tree in trees] for _ in range(given.pairs)]
    for graph in ("wide", "chain"):
        before, now = (statistics.median(pair[at][graph] for pair in pairs) for at in (0, 1))
        print(f"{graph:6} before {before:.3f} ms a step, now {now:.3f} ms: {now / before:.2f}")


if __name__ == "__main__":
    main()
