"""What a fresh interpreter loads: nothing heavy before it is used, and nothing of an extra that is not installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

EXTRAS = {
    "pydantic-ai-slim": "pydantic_ai",
    "httpx2": "httpx2",
    "xllamacpp": "xllamacpp",
    "mcp": "mcp",
    "grpcio": "grpc",
    "protobuf": "google.protobuf",
    "uvicorn": "uvicorn",
    "duckdb": "duckdb",
    "psycopg": "psycopg",
    "procrastinate": "procrastinate",
    "fastapi": "fastapi",
    "uvloop": "uvloop",
    "httptools": "httptools",
    "grpcio-health-checking": "grpc_health",
    "grpcio-reflection": "grpc_reflection",
    "pyjwt": "jwt",
    "structlog": "structlog",
    "dnspython": "dns",
    "prometheus-client": "prometheus_client",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter",
    "googleapis-common-protos": "google.rpc",
    "confluent-kafka": "confluent_kafka",
    "a2a-sdk": "a2a",
    "ag-ui-protocol": "ag_ui",
}
"""What the extras install, and the module of each."""

MODELS = {
    *EXTRAS.values(),
    "openai",
    "httpx",
    "numpy",
    "llama_cpp",
    "llguidance",
    "tokenizers",
    "huggingface_hub",
}
SERVERS = {
    "a2a",
    "asyncpg",
    "confluent_kafka",
    "fastapi",
    "grpc",
    "mcp",
    "opentelemetry",
    "prometheus_client",
    "sqlalchemy",
    "starlette",
    "structlog",
    "uvicorn",
}
FRAMEWORKS = {"agents", "langchain_core", "langgraph", "langsmith"}
SCREEN = {"rich", "typer", "click"}
VALUES = {"pydantic", "pydantic_core", "jsonschema_rs", "jmespath", "annotated_types"}
SYSTEM = {"asyncio", "sqlite3", "ssl", "socket", "concurrent", "logging", "email", "http", "subprocess"}
"""Parts of the standard library that take longer than all else that `import replan` needs."""

COLD = MODELS | SERVERS | FRAMEWORKS
TOOLS = '''
from replan import tool


@tool(effect="reads")
def double(n: int) -> int:
    """Twice the number."""
    return 2 * n
'''
PLAN = {
    "steps": [
        {"step_id": "a", "tool": "double", "parameters": {"n": 4}},
        {"step_id": "b", "tool": "double", "parameters": {"n": "${a.output}"}},
    ]
}


class Done(NamedTuple):
    """A fresh interpreter that has ended."""

    code: int
    out: str
    err: str
    loaded: frozenset[str]
    """Top-level names of what it loaded beyond what every interpreter here does."""


def fresh(folder: Path, code: str, *arguments: str, missing: tuple[str, ...] = ()) -> Done:
    """Run the code in an interpreter of its own, in which the modules `missing` cannot be imported."""
    script = f"""
import sys
before = set(sys.modules)
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {missing!r} else self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Hiding, sys.meta_path)
try:
    exec({code!r}, {{"__name__": "__main__"}})
finally:
    after = [name.partition(".")[0] for name in set(sys.modules) - before]
    open("loaded.txt", "w").write(" ".join(after))
"""
    for name, text in (("tools.py", TOOLS), ("plan.json", json.dumps(PLAN))):
        (folder / name).write_text(text, encoding="utf-8")
    kept = ("PATH", "SYSTEMROOT", "PYTHONPATH", "TMPDIR", "TEMP", "TMP")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    home = {name: str(folder) for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env={**env, **home, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    loaded = (folder / "loaded.txt").read_text(encoding="utf-8").split()
    return Done(done.returncode, done.stdout, done.stderr, frozenset(loaded))


def command(folder: Path, *arguments: str, missing: tuple[str, ...] = ()) -> Done:
    """Run `replan` with the arguments."""
    code = "import sys; sys.argv[0] = 'replan'; from replan.cli import main; main()"
    return fresh(folder, code, *arguments, missing=missing)


def commands(folder: Path, *lines: str) -> Done:
    """Run `replan` with the arguments of each line, one after the other in one interpreter."""
    code = f"""
import sys
from replan.cli import main
for line in {lines!r}:
    sys.argv = ["replan", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
"""
    return fresh(folder, code)


def test_importing_replan_loads_replan_and_a_little_of_the_standard_library(tmp_path: Path) -> None:
    done = fresh(tmp_path, "import replan; assert replan.__version__")
    assert done.code == 0, done.err
    assert done.loaded - sys.stdlib_module_names == {"replan"}
    assert done.loaded & SYSTEM == set()


def test_each_public_name_is_there_and_loads_no_model_server_or_screen(tmp_path: Path) -> None:
    done = fresh(tmp_path, "import replan\nfor name in replan.__all__: getattr(replan, name)")
    assert done.code == 0, done.err
    assert "pydantic" in done.loaded  # or else nothing was looked at
    assert done.loaded & (COLD | SCREEN | {"sqlite3", "jsonschema_rs"}) == set()


def test_a_tool_is_written_without_the_store_the_models_and_the_loop(tmp_path: Path) -> None:
    done = fresh(
        tmp_path, TOOLS + "\nimport sys\nprint(sorted(m for m in sys.modules if m.startswith('replan.')))"
    )
    assert done.code == 0, done.err
    assert done.loaded & (COLD | SCREEN | {"sqlite3", "jsonschema_rs", "jmespath"}) == set()
    assert not re.search(r"replan\.(app|wiring|run|reasoning|store|llm|engine|cli|config)\b", done.out)


def test_help_loads_typer_and_nothing_else_that_is_heavy(tmp_path: Path) -> None:
    done = command(tmp_path, "--help")
    assert done.code == 0, done.err
    assert "typer" in done.loaded
    assert done.loaded & (COLD | VALUES | {"rich", "asyncio", "sqlite3", "ssl", "socket", "logging"}) == set()


# typer itself reads the arguments of a command with pydantic


def test_other_help_loads_nothing_that_runs_tasks(tmp_path: Path) -> None:
    done = commands(tmp_path, "--version", "run --help", "tasks --help", "model --help")
    assert done.code == 0, done.err
    assert done.out.count("Usage: replan ") == 3
    unused = {"rich", "asyncio", "sqlite3", "ssl", "jsonschema_rs", "jmespath"}
    assert done.loaded & (COLD | unused) == set()


def test_commands_that_ask_no_model_load_no_model_library(tmp_path: Path) -> None:
    done = commands(
        tmp_path, "tasks list", "tasks list --json --status succeeded", "tools list --tools tools.py",
        "tools show double --tools tools.py", "config show",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "double" in done.out
    assert done.loaded & (COLD | {"rich", "jsonschema_rs"}) == set()


GIVEN = ["run", "double twice", "--plan", "plan.json", "--tools", "tools.py", "--evaluation", "steps"]


def test_a_given_plan_is_checked_and_run_without_any_model_library(tmp_path: Path) -> None:
    done = command(tmp_path, *GIVEN)
    assert (done.code, done.out) == (0, "16\n"), done.err
    assert "sqlite3" in done.loaded
    assert done.loaded & COLD == set()
    listed = command(tmp_path, "tasks", "list", "--json")
    assert [task["status"] for task in json.loads(listed.out)] == ["succeeded"]
    assert listed.loaded & (COLD | {"rich", "jsonschema_rs"}) == set()


# ── the package without its extras ────────────────────────────────────────────


def test_the_list_of_what_extras_install_is_the_package_s_own() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    wanted = [name for names in project["optional-dependencies"].values() for name in names]
    extra = {re.split(r"[\[<>=! ;]", name)[0] for name in wanted}
    assert extra - {"replan"} == set(EXTRAS)


def test_all_of_the_extras_are_all_of_them() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    found: set[str] = set()
    left = ["all"]
    while left:
        found.add(name := left.pop())
        for package in extras[name]:
            if own := re.fullmatch(r"replan\[([a-z0-9,-]+)\]", package):
                left += [one for one in own[1].split(",") if one not in found]
    assert found == set(extras)


MISSING = (*EXTRAS.values(), "openai", "httpx")


def test_without_extras_a_given_plan_runs(tmp_path: Path) -> None:
    done = command(tmp_path, *GIVEN, missing=MISSING)
    assert (done.code, done.out) == (0, "16\n"), done.err
    library = """
from tools import double
from replan import run_sync
from json import load
done = run_sync("double", [double], plan=load(open("plan.json")), evaluation="steps", db="x.db")
print(done.output)
"""
    done = fresh(tmp_path, library, missing=MISSING)
    assert (done.code, done.out) == (0, "16\n"), done.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "x", "--tools", "tools.py"], 2, ("replan[local]",)),
        (["outbox", "kafka"], 2, ("replan[kafka]",)),
        (["run", "x", "--tools", "tools.py", "--model", "local"], 2, ("replan[local]",)),
        (["run", "x", "--tools", "tools.py", "--model", "openai:m"], 2, ("replan[models]",)),
        (
            ["run", "x", "--tools", "tools.py", "--endpoint", "http://127.0.0.1:9/v1"],
            2,
            ("replan[models]",),
        ),
        (["doctor"], None, ("replan[models]", "replan[local]")),
    ],
)
def test_without_extras_the_rest_says_what_to_install(
    tmp_path: Path, arguments: list[str], code: int | None, says: tuple[str, ...]
) -> None:
    done = command(tmp_path, *arguments, missing=MISSING)
    for extra in says:
        assert f"pip install '{extra}'" in done.out + done.err
    assert "Traceback" not in done.err
    if code is not None:
        assert done.code == code, done.err
        assert done.out == ""


def test_a_missing_module_is_really_missing(tmp_path: Path) -> None:
    done: Any = fresh(tmp_path, "import httpx2", missing=MISSING)
    assert done.code == 1
    assert "No module named 'httpx2'" in done.err
