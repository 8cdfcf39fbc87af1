"""A shop's month, from a sentence to a checked answer: planned, run and judged by the built-in model, offline.

    python -m examples.first_run
    python -m examples.first_run --model openai:gpt-4.1

It calls `replan run` with the tools beside this file, as you would, and then compares the answer with the data.
Further arguments go to `replan run`. Exit code 0 only if every value is right.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from examples.first_run.check import answer_from_data, check
from examples.first_run.tools import logbook

TOOLS = Path(__file__).with_name("tools.py")
TASK = (
    "How did the shop do in March 2025? Look up its sales, its sales target and the exchange rate of the US dollar. "
    "Compare the revenue with the target, convert the revenue to US dollars, and write the revenue, the comparison "
    "and the dollars into the logbook."
)
TIMEOUT_SECS = 1800
"""Plenty: a machine that is busy with other things may need minutes to read the first prompt."""


def main(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "replan.cli", "run", TASK, "--tools", str(TOOLS)]
    command += ["--timeout", str(TIMEOUT_SECS), "--json", *arguments]
    print(f"Task: {TASK}\n", file=sys.stderr, flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as running:
        # Ctrl-C reaches the command as well, and it knows how to end a task cleanly: wait for it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        told, _ = running.communicate()
    if running.returncode != 0:
        print(told, end="")
        return running.returncode
    answer = json.loads(told)["final_output"]
    print(f"\n{answer}\n")
    checked = check(answer, answer_from_data())
    for value in checked:
        print(value)
    print(f"The logbook is {logbook()}.")
    return 0 if all(value.right for value in checked) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
