"""Commands of the how-tos for tools, run as they are written, in a folder of their own."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import warm_command
from documents import ROOT, blocks_of, evaluation

from replan.testing import ScriptedEndpoint

SHOP = """
from mcp.server import MCPServer

server = MCPServer("shop")

@server.tool()
def price(fruit: str) -> float:
    "The price of a fruit."
    return {"plums": 1.75}[fruit]

server.run()
"""
API = """
openapi: 3.1.0
info: {title: Pets, version: "1"}
servers: [{url: "https://pets.example.org"}]
components: {securitySchemes: {api_key: {type: apiKey, in: header, name: X-Key}}}
paths:
  /owners:
    get: {operationId: listOwners, responses: {"200": {description: all}}}
  /pets:
    get: {operationId: listPets, tags: [pets], responses: {"200": {description: all}}}
    post: {operationId: addPet, tags: [pets], security: [{api_key: []}], responses: {"201": {description: made}}}
"""


def blocks(document: str, language: str) -> list[str]:
    return [block.text for block in blocks_of(ROOT / document, language)]


def commands(document: str, *words: str) -> list[str]:
    """The commands of its console blocks that have all these words."""
    lines = [
        line[2:] for block in blocks(document, "console") for line in block.splitlines() if line[:2] == "$ "
    ]
    return [line for line in lines if all(word in line for word in words)]


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    kept = {
        "PATH": path,
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "APP_LLM_MAX_RETRIES": "0",
    }
    return {**kept, **more}


def shell(command: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Have a shell run a command of a document, in which `replan` is the one of this interpreter."""
    (folder / "bin").mkdir(exist_ok=True)
    warm_command.program(folder / "bin" / "replan")
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@contextmanager
def served(folder: Path, *arguments: str, **more: str) -> Iterator[list[str]]:
    """The URLs of `replan tools serve tools.py` while it runs."""
    env = environment(folder, **more)
    server = warm_command.Process(("tools", "serve", *arguments, "--json"), folder, env)
    try:
        yield json.loads(server.stdout.readline())["urls"]
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.communicate()


def test_the_first_task_without_code(tmp_path: Path) -> None:
    """README, "Tools from anywhere"."""
    (made,) = commands("README.md", "sales.csv", "printf")
    (asked,) = commands("README.md", "--tools kit:data=.")
    assert shell(made, tmp_path).returncode == 0
    statement = "SELECT city, sum(amount) AS total FROM 'sales.csv' GROUP BY city ORDER BY total DESC LIMIT 1"
    plan = {"steps": [{"step_id": "top", "tool": "sql_query", "parameters": {"statement": statement}}]}
    with ScriptedEndpoint({"execution_plan": plan, "evaluation": evaluation("Rome")}) as endpoint:
        env = {"APP_LLM_ENDPOINT": endpoint.url, "APP_LLM_DEFAULT_MODEL": "scripted"}
        done = shell(f"{asked} --task-id t", tmp_path, **env)
    assert (done.returncode, done.stdout) == (0, "Rome\n"), done.stderr
    found = json.loads(shell("replan tasks output t top --json", tmp_path).stdout)
    assert found["rows"] == [{"city": "Rome", "total": 55}]


def test_any_number_of_sources_together(tmp_path: Path) -> None:
    """README: a file of MCP servers, a document and a service in one command."""
    (line,) = commands("README.md", "mcp.json", "openapi:api.yaml")
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    shop = {"command": sys.executable, "args": [str(tmp_path / "shop.py")]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": shop}}), "utf-8")
    (tmp_path / "api.yaml").write_text(API, "utf-8")
    (tmp_path / "tools.py").write_text("def price(of: str) -> float:\n    return 2.5\n", "utf-8")
    with served(tmp_path, "tools.py", "--port", "-1", "--grpc-port", "0") as (url,):
        done = shell(line.replace("grpc://localhost:8471", url) + " --json", tmp_path)
    assert done.returncode == 0, done.stderr
    ids = [tool["id"] for tool in json.loads(done.stdout)]
    assert "listPets" in ids
    assert "shop.price" in ids
    assert len([each for each in ids if each.endswith(".price")]) == 2, "a clash has the source in front"
    # openapi.md: "`replan tools list` names the variables that are missing"
    assert "addPet" not in ids
    assert re.search(r"addPet.*OPENAPI_\w*API_KEY", " ".join(done.stderr.split()))


def test_a_document_of_the_configuration(tmp_path: Path) -> None:
    """openapi.md: `[tools.openapi.NAME]`, with a key of the environment."""
    (table,) = blocks("docs/how-to/openapi.md", "toml")
    (tmp_path / "config.toml").write_text(table, "utf-8")
    (tmp_path / "petstore.yaml").write_text(API, "utf-8")
    done = shell("replan tools list --json", tmp_path, PETS_KEY="a-key")
    assert done.returncode == 0, done.stderr
    found = {tool["id"]: (tool["source"], tool["timeout_secs"]) for tool in json.loads(done.stdout)}
    assert found == {"listPets": ("pets", 20), "addPet": ("pets", 20)}
    lacking = shell("replan tools list", tmp_path)
    assert lacking.returncode == 2
    assert "auth.api_key: the environment variable PETS_KEY is not set" in lacking.stderr


def test_the_kit_works_by_a_plan_without_a_model(tmp_path: Path) -> None:
    """kit.md, as it is written."""
    (made,) = commands("docs/how-to/kit.md", "printf")
    (asked,) = commands("docs/how-to/kit.md", "--plan plan.json")
    (tmp_path / "plan.json").write_text(blocks("docs/how-to/kit.md", "json")[0], "utf-8")
    assert shell(made, tmp_path).returncode == 0
    days = [dt.datetime.now().astimezone().date()]
    done = shell(asked, tmp_path)
    days.append(dt.datetime.now().astimezone().date())
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "work" / "report.md").read_text("utf-8")
    assert report in [f"{day}\nLyon: 4\nUlm: 8\n" for day in days]


def test_a_service_of_the_configuration_with_its_token_in_the_environment(tmp_path: Path) -> None:
    """remote.md: `[tool_service]`, also when the first endpoint is not there."""
    (line,) = commands("docs/how-to/remote.md", "APP_TOOL_SERVICE_TOKEN")
    (table,) = blocks("docs/how-to/remote.md", "toml")
    (tmp_path / "tools.py").write_text("def give() -> int:\n    return 1\n", "utf-8")
    serving = ("tools.py", "--port", "0", "--grpc-port", "0", "--token-env", "TOOLS_TOKEN")
    with socket.socket() as nobody, served(tmp_path, *serving, TOOLS_TOKEN="a-token") as (http, grpc):
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        for first in (f"grpc://127.0.0.1:{nobody.getsockname()[1]}", grpc):
            text = table.replace("grpc://127.0.0.1:8471", first).replace("http://127.0.0.1:8470", http)
            (tmp_path / "config.toml").write_text(text, "utf-8")
            listed = shell(f"{line} --json", tmp_path, TOOLS_TOKEN="a-token")
            assert [tool["id"] for tool in json.loads(listed.stdout)] == ["give"], listed.stderr
            called = shell("replan tools call give", tmp_path, APP_TOOL_SERVICE_TOKEN="a-token")
            assert (called.returncode, called.stdout) == (0, "1\n"), called.stderr
        wrong = shell(line, tmp_path, TOOLS_TOKEN="another")
    assert "the one that it got is missing or wrong" in wrong.stderr
    assert "another" not in wrong.stderr
