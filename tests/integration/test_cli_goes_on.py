"""A task goes on by its log: with the tools, the model and the endpoint that it was begun with, however it was begun.

Keys are the exception. They are this process's own, and go where it says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_process import environment, replan
from secret_world import verdict

from replan.testing import ScriptedEndpoint

TOOLS = '''
from replan import tool


@tool(effect="once")
def note(text: str) -> str:
    """Note a text."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
    return text
'''
OTHER = TOOLS.replace("write(text +", "write(text.upper() +")
PLAN = {
    "steps": [
        {"step_id": "a", "tool": "note", "parameters": {"text": "one"}, "requires_approval": True},
        {
            "step_id": "b",
            "tool": "note",
            "parameters": {"text": "${a.output} two"},
            "requires_approval": True,
        },
    ]
}
KEY, OTHER_KEY = "a-key-of-the-first-place", "a-key-of-another-place"
MODELS = ("m", "first", "second", "other")
RUN = ("run", "do it", "--interactive", "--task-id", "t", "--db", "log.db")
BY_PLAN = (*RUN, "--plan", "plan.json", "--evaluation", "steps")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "tools.py").write_text(TOOLS)
    (tmp_path / "here" / "plan.json").write_text(json.dumps(PLAN))
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "here"


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    answers = {"execution_plan": PLAN, "evaluation": verdict(95, "both", success=True)}
    with ScriptedEndpoint(answers, models=MODELS) as made:
        yield made


def approve(place: Path) -> None:
    done = replan("tasks", "approve", "t", "--db", "log.db", cwd=place)
    assert done.returncode == 0, done.stderr


def resume(place: Path, *options: str, away: bool = True, env: dict[str, str] | None = None) -> Any:
    """From another folder, where nothing of the task is."""
    return replan(
        "tasks", "resume", "t", "--db", str(place / "log.db"), *options,
        cwd=place.parent / "elsewhere" if away else place, env=env,
    )  # fmt: skip


def goes_on(place: Path, *options: str, **how: Any) -> Any:
    """Both calls are agreed to, and made."""
    approve(place)
    waits = resume(place, *options, **how)
    assert waits.returncode == 5, waits.stderr
    approve(place)
    done = resume(place, **how)
    assert done.returncode == 0, done.stderr
    return done


def noted(place: Path) -> str:
    return (place / "notes.txt").read_text()


CONFIGURED = {
    "tools of an option": ("", ("--tools", "tools.py")),
    "configured tools": ('[tools]\nsources = ["tools.py"]\n', ()),
    "tools of both": ('[tools]\nsources = ["more.py"]\n', ("--tools", "tools.py")),
    "a configured MCP server": (
        f'[tools.mcp_servers.notes]\ncommand = "{sys.executable}"\nargs = ["server.py"]\nenv = {{ TOKEN = "${{TOKEN}}" }}\n',
        (),
    ),
    "an MCP server of an option": ("", ("--tools", f"mcp:{sys.executable} server.py")),
}
SERVER = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")


@server.tool()
def note(text: str) -> str:
    """Note a text."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
    return text


server.run()
'''


@pytest.mark.parametrize("way", CONFIGURED)
def test_a_task_goes_on_from_any_folder_with_the_tools_that_it_was_begun_with(place: Path, way: str) -> None:
    config, options = CONFIGURED[way]
    (place / "config.toml").write_text(config)
    (place / "server.py").write_text(SERVER)
    (place / "more.py").write_text("def more() -> int:\n    return 1\n")
    begun = replan(*BY_PLAN, *options, cwd=place, env={"TOKEN": "for-the-notes"})
    assert begun.returncode == 5, begun.stderr
    (place / "config.toml").unlink()
    done = goes_on(place, env={"TOKEN": "for-the-notes"})
    assert noted(place) == "one\none two\n"
    assert "t goes on with what it was begun with" in done.stderr
    for named in (*options[1:], *(["notes"] if "notes" in config else [])):
        assert named in done.stderr


def test_tools_of_a_program_that_can_be_imported_are_found_again_and_others_are_named(place: Path) -> None:
    (place / "app.py").write_text(
        "from replan import run_sync\nimport json, sys, tools\n"
        "def local(x: int) -> int:\n    return x\n"
        "given = [tools.note] if sys.argv[1] == 'importable' else [tools.note, local]\n"
        "run_sync('do it', tools=given, db='log.db', task_id='t', plan=json.load(open('plan.json')),\n"
        "         evaluation='steps', interactive=True)\n"
    )

    def begin(how: str) -> None:
        subprocess.run(
            [sys.executable, "app.py", how], cwd=place, env=environment(place), check=True, timeout=60
        )

    begin("importable")
    goes_on(place)
    assert noted(place) == "one\none two\n"

    (place / "log.db").unlink()
    begin("not importable")
    approve(place)
    lacks = resume(place)
    assert (lacks.returncode, "tools that only its program has (local)" in lacks.stderr) == (2, True), (
        lacks.stderr
    )
    given = resume(place, "--tools", str(place / "tools.py"))
    assert given.returncode == 5, given.stderr


def test_the_endpoint_and_the_model_come_from_the_log_whatever_the_configuration_says_by_now(
    place: Path, endpoint: ScriptedEndpoint
) -> None:
    (place / "config.toml").write_text(
        f'[llm]\nendpoint = "{endpoint.url}"\ndefault_model = "first"\ntemperature = 0.2\n[tools]\nsources = ["tools.py"]\n'
    )
    assert replan(*RUN, cwd=place).returncode == 5
    away = f'[llm]\nendpoint = "{ScriptedEndpoint.refused_url()}"\ndefault_model = "second"\n'
    (place / "config.toml").write_text(away)
    done = goes_on(place, away=False)
    assert done.stdout == "both\n"
    assert f"the model first, the endpoint {endpoint.url}" in done.stderr
    assert "the configuration here says otherwise of [llm] endpoint, [llm] default_model" in done.stderr
    assert {(request["model"], request["temperature"]) for request in endpoint.requests} == {("first", 0.2)}


def test_what_is_given_to_a_resumption_counts_is_logged_and_stays(
    place: Path, endpoint: ScriptedEndpoint
) -> None:
    (place / "other.py").write_text(OTHER)
    first = ScriptedEndpoint({"execution_plan": PLAN}, models=MODELS)
    with first:
        begun = replan(*RUN, "--tools", "tools.py", "--endpoint", first.url, "--model", "m", cwd=place)
    assert begun.returncode == 5, begun.stderr
    approve(place)
    given = ("--tools", "other.py", "--endpoint", endpoint.url, "--model", "other")
    waits = resume(place, *given, away=False)
    assert waits.returncode == 5, waits.stderr
    approve(place)
    done = resume(place, "--events")
    assert done.returncode == 0, done.stderr
    assert noted(place) == "ONE\nONE TWO\n"
    assert endpoint.requests[-1]["model"] == "other"
    log = replan("tasks", "show", "t", "--db", "log.db", "--events", cwd=place)
    records = [json.loads(line) for line in log.stdout.splitlines()]
    [instead] = [
        one["data"]["instead"] for one in records if one["type"] == "task_resumed" and one["data"]["instead"]
    ]
    assert instead["tools"] == ["other.py"]
    assert instead["endpoint"] == endpoint.url
    assert set(instead["models"].values()) == {"other"}


def test_what_a_source_lacks_by_now_is_named_with_what_to_give(place: Path) -> None:
    secret = '[tools.mcp_servers.notes]\nurl = "http://127.0.0.1:9/mcp"\nheaders = { Authorization = "Bearer s3cret-of-the-notes" }\n'
    (place / "config.toml").write_text(secret + '[tools]\nsources = ["tools.py"]\n')
    begun = replan(*BY_PLAN, cwd=place)
    assert begun.returncode == 5, begun.stderr
    assert b"s3cret-of-the-notes" not in (place / "log.db").read_bytes()
    approve(place)
    lacks = resume(place)
    assert lacks.returncode == 2
    assert "[tools] mcp_servers.notes" in lacks.stderr
    (place / "config.toml").write_text(secret)
    found = resume(place, away=False)
    assert found.returncode == 5, found.stderr


def test_what_the_configuration_forbids_stays_forbidden_for_a_task_that_knows_nothing_of_it(
    place: Path,
) -> None:
    plan = {"steps": [PLAN["steps"][0], {**PLAN["steps"][1], "requires_approval": False}]}
    (place / "plan.json").write_text(json.dumps(plan))
    begun = replan(*BY_PLAN, "--tools", "tools.py", cwd=place)
    assert begun.returncode == 5, begun.stderr
    approve(place)
    (place / "config.toml").write_text("[tools.rules.note]\nrequires_approval = true\n")
    waits = resume(place, away=False)
    assert (waits.returncode, noted(place)) == (5, "one\n"), "the second call is asked for"
    (place / "config.toml").write_text('[tools]\ndeny = ["note"]\n')
    denied = resume(place, away=False)
    assert denied.returncode == 2
    assert "note" in denied.stderr


@pytest.mark.parametrize(
    ("begun_key", "own", "options", "code", "sent"),
    [
        pytest.param(KEY, {"APP_LLM_API_KEY": KEY}, (), 0, KEY, id="the very key that was there before"),
        pytest.param(KEY, {"APP_LLM_API_KEY": OTHER_KEY}, (), 2, None, id="another key"),
        pytest.param(KEY, {}, (), 2, None, id="no key here"),
        pytest.param(
            KEY, {"APP_LLM_API_KEY": OTHER_KEY, "APP_LLM_ENDPOINT": "{url}"}, (), 0, OTHER_KEY,
            id="another key, for that endpoint by the settings",
        ),
        pytest.param(
            KEY, {"APP_LLM_API_KEY": OTHER_KEY, "APP_LLM_ENDPOINT": "{origin}/other/v1"}, (), 0, OTHER_KEY,
            id="another key, for that origin",
        ),
        pytest.param(
            KEY, {"APP_LLM_API_KEY": OTHER_KEY, "APP_LLM_ENDPOINT": "http://127.0.0.1:9/v1"}, (), 2, None,
            id="a key for another origin",
        ),
        pytest.param(
            KEY, {"APP_LLM_API_KEY": OTHER_KEY}, ("--endpoint", "{url}"), 0, OTHER_KEY, id="the endpoint is named"
        ),
        pytest.param(KEY, {"MINE": OTHER_KEY}, ("--api-key", "env:MINE"), 0, OTHER_KEY, id="a key is given for it"),
        pytest.param(None, {"APP_LLM_API_KEY": OTHER_KEY}, (), 0, "none", id="begun without a key"),
    ],
)  # fmt: skip
def test_a_key_goes_where_the_settings_of_its_own_process_name_it_for(
    place: Path,
    endpoint: ScriptedEndpoint,
    begun_key: str | None,
    own: dict[str, str],
    options: tuple[str, ...],
    code: int,
    sent: str | None,
) -> None:
    plan = {"steps": [PLAN["steps"][0]]}
    (place / "plan.json").write_text(json.dumps(plan))
    env = {} if begun_key is None else {"APP_LLM_API_KEY": begun_key}
    at = ("--endpoint", endpoint.url, "--model", "m", "--plan", "plan.json")
    begun = replan(*RUN, "--tools", "tools.py", *at, cwd=place, env=env)
    assert begun.returncode == 5, begun.stderr
    approve(place)
    origin = endpoint.url.rpartition("/v1")[0]

    def filled(text: str) -> str:
        return text.format(url=endpoint.url, origin=origin)

    done = resume(place, *map(filled, options), env={name: filled(value) for name, value in own.items()})
    assert done.returncode == code, done.stderr
    keys = {headers["authorization"] for headers in endpoint.headers}
    assert keys == (set() if sent is None else {f"Bearer {sent}"})
    if code == 2:
        assert "key" in done.stderr
        assert OTHER_KEY not in done.stderr


@pytest.mark.parametrize(
    "settings",
    [
        {"endpoint": "{url}", "models": {"evaluation": "m"}},
        {"models": {"evaluation": "m"}, "config": {"llm": {"endpoint": "{url}"}}},
        {"models": {"evaluation": "m"}, "config": {"llm": {"endpoint": "{own}", "fallback_endpoint": "{url}"}}},
        {"endpoint": "{own}", "models": {"evaluation": "m"},
         "config": {"llm": {"endpoint": "{own}", "fallback_endpoint": "{url}"}}},
        {"endpoint": "{url}", "models": {"evaluation": "local"}, "proof": "0" * 32},
        {"models": dict.fromkeys(("selection", "planning", "reflection", "evaluation"), "deepseek:m"), "config": {}},
    ],
)  # fmt: skip
def test_a_forged_log_is_sent_no_key(
    place: Path, endpoint: ScriptedEndpoint, settings: dict[str, Any]
) -> None:
    own = "http://127.0.0.1:9/v1"
    text = json.dumps(settings).replace("{url}", endpoint.url).replace("{own}", own)
    script = (
        "import asyncio, json, sys\nfrom pathlib import Path\nfrom replan.core.events import TaskSubmitted\n"
        "from replan.store.sqlite import SqliteStore\n"
        "async def main():\n    store = SqliteStore(Path('log.db'))\n"
        "    event = TaskSubmitted(description='x', tools=('tools.py',), settings=json.loads(sys.argv[1]))\n"
        "    await store.create('t', event, 1.0)\n    await store.aclose()\nasyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", script, text], cwd=place, check=True, timeout=60)
    env = {"APP_LLM_API_KEY": OTHER_KEY, "APP_LLM_ENDPOINT": own}
    done = resume(place, away=False, env=env)
    assert (done.returncode, "their key is not sent there" in done.stderr) == (2, True), done.stderr
    assert endpoint.requests == []


def event_of(place: Path, task_id: str, kind: str) -> dict[str, Any]:
    lines = replan("tasks", "show", task_id, "--db", "log.db", "--events", cwd=place).stdout.splitlines()
    return next(one["data"] for one in map(json.loads, lines) if one["type"] == kind)


def test_what_is_given_with_a_fork_is_stored_with_it_and_used_by_whoever_goes_on(
    place: Path, endpoint: ScriptedEndpoint
) -> None:
    assert replan(*BY_PLAN, "--tools", "tools.py", cwd=place).returncode == 5
    (place / "other.py").write_text(OTHER)
    given = ("--tools", "other.py", "--model", "other", "--endpoint", endpoint.url, "--api-key", KEY)
    forked = replan(
        "tasks", "fork", "t", "--task-id", "f", "--evaluation", "model", "--approve", "never", *given, "--detach",
        "--db", "log.db", cwd=place,
    )  # fmt: skip
    assert (forked.returncode, forked.stdout.strip()) == (0, "f"), forked.stderr
    event = event_of(place, "f", "task_forked")
    assert event["tools"] == ["other.py"]
    assert event["settings"]["endpoint"] == endpoint.url
    assert set(event["settings"]["models"].values()) == {"other"}
    assert KEY.encode() not in (place / "log.db").read_bytes()
    while (
        done := replan("tasks", "resume", "f", "--api-key", KEY, "--db", "log.db", cwd=place)
    ).returncode == 5:
        assert replan("tasks", "approve", "f", "--db", "log.db", cwd=place).returncode == 0
    assert done.returncode == 0, done.stderr
    assert (noted(place), endpoint.calls) == (
        "ONE\nONE TWO\n",
        {"evaluation": 1},
    )


@pytest.mark.parametrize(
    "given", [("--tools", "nowhere.py"), ("--tools", "plain.py"), ("--secret", "a=env:HOME", "--detach")]
)
def test_a_fork_that_could_not_go_on_with_what_is_given_is_not_stored(
    place: Path, given: tuple[str, ...]
) -> None:
    assert replan(*BY_PLAN, "--tools", "tools.py", cwd=place).returncode == 5
    (place / "plain.py").write_text("def plain() -> int:\n    return 1\n")
    refused = replan("tasks", "fork", "t", "--task-id", "f", *given, "--db", "log.db", cwd=place)
    assert refused.returncode == 2, refused.stderr
    assert "goes on from event" not in refused.stderr
    assert replan("tasks", "show", "f", "--db", "log.db", cwd=place).returncode == 2
