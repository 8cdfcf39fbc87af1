"""Runs each case in a process of its own, with a time limit and no way out but loopback."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from bench.conformance.case import MARK, Facts
from bench.conformance.peers import ROOT, Peer
from bench.conformance.rows import BY_KEY

LIMIT_SECS = 150.0


@dataclass(frozen=True)
class Result:
    """What one program of one peer did."""

    peer: Peer
    row: str
    option: str
    said: str
    passed: bool | None
    """None: the program could not be run."""


@dataclass(frozen=True)
class Installed:
    """A peer that is there: its versions and its cases."""

    peer: Peer
    versions: dict[str, str]
    cases: list[dict[str, str]]


def child(peer: Peer, argument: str) -> tuple[Facts | None, str]:
    """What a peer's program told, or why it told nothing."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": home,
            "PYTHONDONTWRITEBYTECODE": "1",
            # Nobody listens there: whatever wants to report home is refused at once.
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        command = [str(peer.python), "-m", peer.module, argument]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_SECS
            )
        except subprocess.TimeoutExpired:
            return None, f"stopped after {LIMIT_SECS:.0f} s"
        except FileNotFoundError:
            return None, "not installed"
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(MARK):
            return json.loads(line.removeprefix(MARK)), ""
    return None, (done.stderr.strip().splitlines() or ["said nothing"])[-1]


def installed(peer: Peer) -> Installed | str:
    """The peer's versions and cases, or why it has none."""
    told, why = child(peer, "--list")
    if told is None:
        return "not installed" if "No module named" in why or "PackageNotFound" in why else why
    return Installed(peer, told["versions"], told["cases"])


def results(there: Installed, rows: set[str]) -> Iterator[Result]:
    """Run the peer's cases of these rows, one after the other."""
    for case in there.cases:
        if case["row"] not in rows:
            continue
        row = BY_KEY[case["row"]]
        facts, why = child(there.peer, case["name"])
        if facts is None:
            stopped = why.startswith("stopped")
            yield Result(there.peer, row.key, case["option"], why, False if stopped else None)
        elif facts.get("exercised") is False:
            why = "what the row is about was never asked for: nothing is shown"
            yield Result(there.peer, row.key, case["option"], why, None)
        else:
            yield Result(there.peer, row.key, case["option"], row.said(facts), row.passed(facts))
