"""Requests by the thousand, made up by schemathesis from the document of the service over HTTP: none is answered as it does not say, or by an error of ours.

python -m bench.fuzz --setup        install schemathesis into .venv-fuzz/
python -m bench.fuzz [--examples N] [--seed N]

Calls that are not built yet answer 501, and are left out; so are streams, and statistics of tools, of whose form schemathesis cannot read
`prefixItems`. What fits the document and is refused by what it means (a page
that ends nowhere, a task that is paused already) is no fault.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

from replan.testing import ScriptedEndpoint

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".venv-fuzz"
LEFT_OUT = ("workflows", "scenes", "review", "skip", "tool_stats")
PLAN = {"steps": [{"step_id": "s1", "tool": "weather", "parameters": {"city": "Rome"}}]}
TOOLS = """
from replan import tool


@tool(effect="reads")
def weather(city: str) -> dict:
    return {"city": city, "degrees": len(city)}


@tool(effect="once", requires_approval=True)
def pay(amount: int) -> dict:
    return {"paid": amount}
"""


def set_up() -> None:
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    pip = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(ROOT / "locks/fuzz.txt")], check=True)


def tried(url: str, examples: int, seed: int, folder: str) -> int:
    left_out = [part for name in LEFT_OUT for part in ("--exclude-operation-id", name)]
    return subprocess.run(
        [
            VENV / "bin/st", "run", f"{url}/api/v1/openapi.json", "--max-examples", str(examples), "--seed", str(seed),
            "--exclude-path-regex", "/events$", *left_out, "--exclude-checks", "positive_data_acceptance",
            "--request-timeout", "70", "--no-color",
        ],
        cwd=folder, check=False,
    ).returncode  # fmt: skip


def submitted(url: str) -> None:
    """Tasks to be found: one that has ended, one that waits for a person."""
    for task_id, tool, parameters in (
        ("task_done", "weather", {"city": "Rome"}),
        ("task_asks", "pay", {"amount": 3}),
    ):
        plan = {"steps": [{"step_id": "s1", "tool": tool, "parameters": parameters}]}
        body = {"task_id": task_id, "task_description": "A task", "options": {"plan": plan}}
        request = Request(
            f"{url}/api/v1/tasks", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        urlopen(request).read()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.setup:
        set_up()
        return 0
    with tempfile.TemporaryDirectory() as folder, ScriptedEndpoint({"execution_plan": PLAN}) as model:
        (Path(folder) / "tools.py").write_text(TOOLS)
        service = subprocess.Popen(
            [
                sys.executable, "-m", "replan.cli", "serve", "--port", "0", "--tools", "tools.py", "--db", "sqlite:///tasks.db",
                "--evaluation", "steps", "--json", "--grace", "0", "--endpoint", model.url, "--model", "scripted",
            ],
            cwd=folder, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert service.stdout is not None
        try:
            url = json.loads(service.stdout.readline())["urls"][0]
            submitted(url)
            return tried(url, asked.examples, asked.seed, folder)
        finally:
            service.terminate()
            service.wait()


if __name__ == "__main__":
    sys.exit(main())
