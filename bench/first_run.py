"""From a fresh clone to a checked answer: what each stage takes, and what importing costs beside the peers.

    python -m bench.first_run                    everything (some five minutes; the built-in model runs once)
    python -m bench.first_run --only imports     import and start-up times alone; also: setup, task
    python -m bench.first_run --crewai           its import too, in an environment of its own (it wants older packages)

The clone is made of the commit that this working tree stands on, in a temporary folder. The stages are the
Makefile's own. Packages come through pip's cache if they are there, as they would be for a second clone:
PIP_NO_CACHE_DIR=1 turns that off. The weights are fetched only if the user's cache does not have them.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PEERS = {
    "langgraph": "from langgraph.graph import StateGraph",
    "pydantic_ai": "from pydantic_ai import Agent",
    "agents": "from agents import Agent, Runner",
    "dbos": "from dbos import DBOS",
    "temporalio": "from temporalio import activity, workflow; from temporalio.client import Client",
}
"""What a program that uses the peer begins with."""
PACKAGES = {"agents": "openai-agents", "pydantic_ai": "pydantic-ai-slim"}
CREWAI = "crewai==1.15.30"
BARS = {"import replan": 0.3, "replan --help": 0.5}
MB = 1_000_000


@dataclass
class Used:
    """What a command took, with everything that it started and waited for."""

    secs: float
    cpu: float
    peak: int
    """Bytes of memory of the largest of its processes."""
    out: str = ""


def measured(
    command: Sequence[str | Path],
    *,
    cwd: Path = REPOSITORY,
    env: dict[str, str] | None = None,
    out: bool = False,
) -> Used:
    """Run the command; `SystemExit` if it fails."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=told if out else sys.stderr
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        secs = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}")
        told.seek(0)
        unit = 1 if sys.platform == "darwin" else 1024
        return Used(secs, used.ru_utime + used.ru_stime, used.ru_maxrss * unit, told.read())


def size(folder: Path) -> int:
    """Bytes of the files in the folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def tell(stage: str, secs: float, used: int | None, more: str = "") -> None:
    told = "" if used is None else f"{used / MB:,.0f} MB"
    print(f"{stage:28}{secs / 60:8.2f} min {told:>10}  {more}", flush=True)


# ── setting up, and the task ──────────────────────────────────────────────────


def set_up(base: Path) -> Path:
    """Clone, environment, packages; the clone."""
    clone = base / "replan"
    done = measured(["git", "clone", "--quiet", "--no-local", REPOSITORY, clone], cwd=base)
    tell("clone", done.secs, size(clone))
    python = Path(sys.base_prefix) / "bin" / "python3"
    done = measured(["make", "--silent", f"PYTHON={python}", ".venv/bin/python"], cwd=clone)
    before = size(clone / ".venv")
    tell("environment", done.secs, before)
    done = measured(["make", "--silent", f"PYTHON={python}", ".venv/.run"], cwd=clone)
    tell("packages", done.secs, size(clone / ".venv") - before, f"{packages(clone)} packages")
    return clone


def packages(clone: Path) -> int:
    done = measured([clone / ".venv/bin/python", "-m", "pip", "list", "--format=json"], cwd=clone, out=True)
    return len(json.loads(done.out))


def task(clone: Path, base: Path) -> None:
    """The weights, and the first task with the built-in model, checked."""
    replan = clone / ".venv/bin/replan"
    code = "from replan.llm.local.weights import find; print(find() and find().stat().st_size or 0)"
    found = int(measured([clone / ".venv/bin/python", "-c", code], out=True, cwd=clone).out)
    done = measured([replan, "model", "pull"], cwd=clone)
    told = "were there already: checked" if found else "fetched, checked"
    tell(
        "weights",
        done.secs,
        int(measured([clone / ".venv/bin/python", "-c", code], out=True, cwd=clone).out),
        told,
    )
    database = f"sqlite:///{base / 'first.db'}"
    done = measured(
        [clone / ".venv/bin/python", "-m", "examples.first_run", "--db", database, "--task-id", "first"],
        cwd=clone,
        out=True,
    )
    sys.stderr.write(done.out)
    tell(
        "the task, answer checked",
        done.secs,
        None,
        f"peak memory {done.peak / MB:,.0f} MB, CPU {done.cpu:.0f} s",
    )
    events = measured(
        [replan, "tasks", "show", "first", "--events", "--db", database], cwd=clone, out=True
    ).out
    tell_parts([json.loads(line) for line in events.splitlines()])


def tell_parts(records: list[dict[str, Any]]) -> None:
    """What the task's time went to, from its log."""
    started = {}
    for record in records:
        data = record.get("data", record)
        if record["type"] == "llm_call_started":
            started[data["call_id"]] = seconds(record)
        if record["type"] == "llm_call_completed":
            usage = data["usage"]
            tell(
                f"  model: {data['role']}",
                seconds(record) - started[data["call_id"]],
                None,
                f"{usage['input_tokens']} tokens read, {usage['output_tokens']} written",
            )
    steps = [seconds(r) for r in records if r["type"] in ("step_started", "step_completed")]
    if steps:
        tell("  steps", max(steps) - min(steps), None)


def seconds(record: dict[str, Any]) -> float:
    ts = record["ts"]
    return ts if isinstance(ts, int | float) else datetime.fromisoformat(ts).timestamp()


# ── imports ───────────────────────────────────────────────────────────────────


@dataclass
class Start:
    """A fresh process, started again and again."""

    label: str
    command: list[str]
    uses: list[Used] = field(default_factory=list)


def starts(crewai: Path | None) -> list[Start]:
    python = sys.executable

    def importing(label: str, code: str, interpreter: str = python) -> Start:
        return Start(label, [interpreter, "-c", code])

    found = [
        importing("python -c pass", "pass"),
        importing("import replan", "import replan"),
        importing("from replan import Replan", "from replan import Replan, tool"),
        Start("replan --help", [python, "-m", "replan.cli", "--help"]),
        Start("replan tasks list", [python, "-m", "replan.cli", "tasks", "list"]),
    ]
    for name, code in PEERS.items():
        if importlib.util.find_spec(name):
            package = PACKAGES.get(name, name)
            found.append(importing(f"{package} {importlib.metadata.version(package)}", code))
        else:
            print(f"{name} is not installed: `make .venv/.bench`", file=sys.stderr)
    if crewai is not None:
        found.append(
            importing(CREWAI.replace("==", " "), "from crewai import Agent, Crew, Task", str(crewai))
        )
    return found


def imports(base: Path, times: int, crewai: bool) -> None:
    """Median of fresh processes, interleaved; each once before, so that files are warm and compiled."""
    given = starts(crewai_python(base) if crewai else None)
    folder = base / "home"
    folder.mkdir()
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(folder),
        "XDG_CACHE_HOME": str(folder),
        "CREWAI_DISABLE_TELEMETRY": "true",
    }
    shuffle = random.Random(0).shuffle
    for round_ in range(times + 1):
        order = list(given)
        shuffle(order)
        for start in order:
            used = measured(start.command, cwd=folder, env=env, out=True)
            if round_:
                start.uses.append(used)
    print(
        f"\n{'fresh process, median of ' + str(times):34}{'wall s':>9}{'least':>9}{'CPU s':>9}{'peak MB':>9}"
    )
    for start in given:
        wall = statistics.median(used.secs for used in start.uses)
        least = min(used.secs for used in start.uses)
        cpu = statistics.median(used.cpu for used in start.uses)
        peak = statistics.median(used.peak for used in start.uses)
        bar = BARS.get(start.label)
        verdict = "" if bar is None else f"   bar {bar} s: {'held' if wall <= bar else 'MISSED'}"
        print(f"{start.label:34}{wall:9.3f}{least:9.3f}{cpu:9.3f}{peak / MB:9.0f}{verdict}")


def crewai_python(base: Path) -> Path:
    """An environment with CrewAI, whose packages do not go together with the others'."""
    folder = base / "crewai"
    measured([sys.executable, "-m", "venv", folder])
    python = folder / "bin" / "python"
    done = measured([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", CREWAI])
    tell("crewai's packages", done.secs, size(folder))
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description="From a fresh clone to a checked answer, and import times.")
    parser.add_argument("--only", choices=["setup", "task", "imports"], help="one part (task sets up first)")
    parser.add_argument("--times", type=int, default=15, help="fresh processes of each kind")
    parser.add_argument("--crewai", action="store_true", help="CrewAI's import too")
    given = parser.parse_args()
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        if given.only != "imports":
            clone = set_up(base)
            if given.only != "setup":
                task(clone, base)
        if given.only in (None, "imports"):
            imports(base, given.times, given.crewai)


if __name__ == "__main__":
    main()
