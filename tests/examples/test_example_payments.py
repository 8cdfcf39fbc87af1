"""Payments at a bank that loses answers, by a process that is killed with SIGKILL and goes on: each is made once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from examples.payments.bank import LOSES_EVERY, Bank

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("after", [1, 6])
def test_each_invoice_is_paid_once_though_the_process_is_killed_in_the_middle(after: int) -> None:
    command = [sys.executable, "-m", "examples.payments", str(after)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = readme.partition("$ python -m examples.payments\n")[2].partition("```")[0].splitlines()
    assert "each invoice is paid once" in shown
    said = re.sub(r"\d+ payments", "N payments", done.stdout).splitlines()
    assert [re.sub(r"\d+ payments", "N payments", line) for line in shown if line] == [
        line for line in said if not line.startswith("  p-")
    ]


def test_the_bank_makes_the_payment_whose_answer_it_loses(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    threading.Thread(target=bank.serve_forever, daemon=True).start()

    def pay(memo: str) -> None:
        body = json.dumps({"to": "Ada", "cents": 5, "memo": memo}).encode()
        urllib.request.urlopen(urllib.request.Request(bank.address + "/payments", data=body)).close()

    try:
        lost = []
        for number in range(1, 2 * LOSES_EVERY + 1):
            try:
                pay(f"m-{number}")
            except (ConnectionError, urllib.error.URLError):
                lost.append(number)
        with urllib.request.urlopen(f"{bank.address}/payments?memo=m-{LOSES_EVERY}") as answer:
            (found,) = json.load(answer)["payments"]
    finally:
        bank.shutdown()
        bank.server_close()
    assert lost == [LOSES_EVERY, 2 * LOSES_EVERY]
    assert found["payment"] == f"p-{LOSES_EVERY}"
    assert len(bank.payments()) == 2 * LOSES_EVERY
