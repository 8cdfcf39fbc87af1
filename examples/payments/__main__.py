"""Twelve invoices, a bank that loses every third answer, and a process that is killed in the middle: each is paid once.

    python -m examples.payments [AFTER]     kill -9 once AFTER payments stand in the bank's book (default 4)

No model is needed: the plan is given, and code settles what is in doubt. Exit code 0 only if the bank's book has each
invoice exactly once.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

from examples.payments.tools import open_invoices

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TASK = "invoices"
PATIENCE_SECS = 120


@contextlib.contextmanager
def bank(folder: Path) -> Generator[str]:
    """The bank as a process of its own; its address."""
    command = [sys.executable, "-m", "examples.payments.bank", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def replan(folder: Path, address: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "replan.cli", *words, "--db", f"sqlite:///{folder / 'replan.db'}"]
    environment = {**os.environ, "BANK_URL": address}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def book(folder: Path) -> list[dict[str, object]]:
    path = folder / "payments.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main(arguments: list[str]) -> int:
    after = int(arguments[0]) if arguments else 4
    with tempfile.TemporaryDirectory() as name, bank(Path(name)) as address:
        folder = Path(name)
        given = (
            "--plan",
            str(HERE / "plan.json"),
            "--tools",
            str(HERE / "tools.py"),
            "--evaluation",
            "steps",
        )
        with replan(folder, address, "run", "Pay the invoices", *given, "--task-id", TASK) as first:
            deadline = time.monotonic() + PATIENCE_SECS
            while len(book(folder)) < after and first.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            first.kill()
        print(f"killed (kill -9) with {len(book(folder))} payments in the bank's book")
        with replan(folder, address, "tasks", "resume", TASK) as second:
            answer = second.communicate(timeout=PATIENCE_SECS)[0].strip()
        print(f"resumed; the payments come to {answer} cents")
        paid = Counter(str(payment["to"]) for payment in book(folder))
        for payment in book(folder):
            print(f"  {payment['payment']}: {payment['cents']} cents to {payment['to']}")
    wanted = Counter(str(invoice["to"]) for invoice in open_invoices())
    once = paid == wanted
    print("each invoice is paid once" if once else f"NOT paid once each: {dict(paid)}")
    return 0 if once and second.returncode == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
