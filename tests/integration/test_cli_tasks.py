"""`replan tasks`, `tools`, `config`, `model`, `doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_process import BY_STEPS, folder, one_step, replan

from replan.testing import ScriptedEndpoint


def test_tasks_are_listed_shown_and_their_results_read_again(tmp_path: Path) -> None:
    folder(tmp_path)
    assert replan(*BY_STEPS, "--task-id", "good", cwd=tmp_path).returncode == 0
    folder(tmp_path, one_step("fail", why="没有 🚫"))
    assert replan(*BY_STEPS, "--task-id", "bad", cwd=tmp_path).returncode == 1

    rows = json.loads(replan("tasks", "list", "--json", cwd=tmp_path).stdout)
    assert [(row["task_id"], row["status"]) for row in rows] == [("bad", "failed"), ("good", "succeeded")]
    failed = replan("tasks", "list", "--status", "failed", cwd=tmp_path)
    assert [line.split()[0] for line in failed.stdout.splitlines()] == ["bad"]
    wrong = replan("tasks", "list", "--status", "done", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "succeeded" in wrong.stderr

    shown = replan("tasks", "show", "bad", cwd=tmp_path)
    assert shown.returncode == 0
    assert "only: failed" in shown.stdout
    assert 'fail({"why": "没有 🚫"})' in shown.stdout
    data = json.loads(replan("tasks", "show", "good", "--json", cwd=tmp_path).stdout)
    assert (data["status"], data["total_steps"], data["open_steps"]) == ("succeeded", 3, 0)

    result = replan("tasks", "result", "good", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "7\n")
    watched = replan("tasks", "watch", "good", "--json", cwd=tmp_path)
    assert (watched.returncode, json.loads(watched.stdout)["final_output"]) == (0, 7)
    ended = replan("tasks", "cancel", "good", cwd=tmp_path)
    assert ended.returncode == 2
    assert "ended" in ended.stderr


def test_a_list_that_leaves_tasks_out_says_so(tmp_path: Path) -> None:
    folder(tmp_path, one_step("count", text="abc"))
    for name in ("one", "two", "three"):
        assert replan(*BY_STEPS, "--task-id", name, cwd=tmp_path).returncode == 0
    some = replan("tasks", "list", "--limit", "2", cwd=tmp_path)
    assert [line.split()[0] for line in some.stdout.splitlines()] == ["three", "two"]
    assert "`--limit 0` lists all" in some.stderr
    for limit in ("0", "3"):
        every = replan("tasks", "list", "--limit", limit, "--json", cwd=tmp_path)
        assert (len(json.loads(every.stdout)), "more" in every.stderr) == (3, False)
    none = replan("tasks", "list", "--status", "unfinished", cwd=tmp_path)
    assert (none.returncode, none.stdout) == (0, ""), none.stderr


def test_tools_are_listed_shown_and_called(tmp_path: Path) -> None:
    folder(tmp_path)
    listed = json.loads(replan("tools", "list", "--tools", "tools.py", "--json", cwd=tmp_path).stdout)
    assert [tool["id"] for tool in listed] == ["count", "add", "fail", "wait_for_ever", "stubborn"]
    shown = replan("tools", "show", "ADD", "--tools", "tools.py", cwd=tmp_path)
    assert shown.stdout.startswith("add\n  Add two numbers.\n")
    assert replan("tools", "show", "A-D_d", "--tools", "tools.py", cwd=tmp_path).returncode == 0
    near = replan("tools", "show", "coutn", "--tools", "tools.py", cwd=tmp_path)
    assert near.returncode == 2
    assert "count" in near.stderr


CALLS: list[Any] = [
    pytest.param(("count", "text=北京"), 0, {"text": "北京", "letters": 2}, id="text"),
    pytest.param(("count", "text=42"), 0, {"text": "42", "letters": 2}, id="digits for a text"),
    pytest.param(("add", "--parameters", "-", "b=2"), 0, 3, id="object from stdin, and a pair over it"),
    pytest.param(("add", "a=one", "b=2"), 2, "a", id="wrong type"),
    pytest.param(("fail", "why=nothing there"), 1, "nothing there", id="the tool fails"),
]


@pytest.mark.parametrize(("args", "code", "expected"), CALLS)
def test_a_tool_is_called_with_what_is_given(
    tmp_path: Path, args: tuple[str, ...], code: int, expected: Any
) -> None:
    done = replan(
        "tools", "call", *args, "--tools", "tools.py", cwd=folder(tmp_path), stdin='{"a": 1, "b": 9}'
    )
    assert done.returncode == code, done.stderr
    if code == 0:
        assert json.loads(done.stdout) == expected
    else:
        assert done.stdout == ""
        assert expected in done.stderr
        assert "Traceback" not in done.stderr


def test_config_is_shown_with_origins_and_checked(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[llm]\napi_key = "sk-hidden"\n', encoding="utf-8")
    env = {"APP_SERVER_PORT": "81"}
    shown = replan("config", "show", cwd=tmp_path, env=env)
    assert shown.returncode == 0
    assert "hidden" not in shown.stdout + shown.stderr
    assert any(
        line.split() == ["port", "=", "81", "#", "APP_SERVER_PORT"] for line in shown.stdout.splitlines()
    )
    data = json.loads(replan("config", "show", "--json", cwd=tmp_path, env=env).stdout)
    assert data["settings"]["llm"]["api_key"] == {"value": "***", "origin": "config.toml:2"}
    fine = replan("config", "check", cwd=tmp_path, env={"APP_LLM_ENDPOINT": "", "APP_SERVER_PORT": "82"})
    # the key, the port, and the retries that these tests allow
    assert (fine.returncode, "; 3 values differ from" in fine.stderr) == (0, True), fine.stderr
    bad = replan("config", "check", "--json", cwd=tmp_path, env={"APP_SERVER_PRT": "81"})
    assert bad.returncode == 2
    assert json.loads(bad.stdout)["problems"] == [
        'APP_SERVER_PRT: unknown key "prt" in [server]; did you mean APP_SERVER_PORT?'
    ]


def test_doctor_finds_what_is_missing_and_says_what_to_do(tmp_path: Path) -> None:
    done = replan("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "replan model pull" in done.stdout
    extras = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("extra ")]
    assert extras == [
        *("models", "local", "mcp", "openapi", "remote", "kit", "postgres", "discovery", "serve", "workers"),
        *("kafka", "a2a", "ag-ui"),
    ]
    with ScriptedEndpoint({}) as endpoint:
        env = {"APP_LLM_ENDPOINT": endpoint.url, "APP_LLM_DEFAULT_MODEL": "scripted"}
        well = replan("doctor", "--json", cwd=tmp_path, env=env)
        checks = {check["name"]: check for check in json.loads(well.stdout)["checks"]}
        assert well.returncode == 0, checks
        assert checks["model"]["state"] == checks["store"]["state"] == checks["config"]["state"] == "ok"
        wrong = replan("doctor", "--json", cwd=tmp_path, env={**env, "APP_LLM_DEFAULT_MODEL": "other"})
        model = next(check for check in json.loads(wrong.stdout)["checks"] if check["name"] == "model")
        assert (wrong.returncode, model["state"]) == (1, "problem")
        assert "scripted" in model["todo"]


def model_check(cwd: Path, env: dict[str, str]) -> dict[str, Any]:
    done = replan("doctor", "--json", cwd=cwd, env=env)
    found: dict[str, Any] = next(one for one in json.loads(done.stdout)["checks"] if one["name"] == "model")
    return found


def test_doctor_asks_an_endpoint_as_a_task_does(tmp_path: Path) -> None:
    with ScriptedEndpoint({}) as endpoint:
        base = endpoint.url.removesuffix("/v1")
        proxy = {"http_proxy": "http://127.0.0.1:9"}
        for url, more in (
            (base, {}),
            (f"{base.removeprefix('http://')}/v1", {}),
            (f"{base}/v1/chat/completions", proxy),
        ):
            env = {"APP_LLM_ENDPOINT": url, "APP_LLM_DEFAULT_MODEL": "openai:scripted", **more}
            assert model_check(tmp_path, env)["state"] == "ok", url


@pytest.mark.parametrize(
    ("env", "state", "says"),
    [
        pytest.param({"APP_LLM_ENDPOINT": "ftp://127.0.0.1/v1"}, "problem", "no endpoint", id="no address"),
        pytest.param({"APP_LLM_ENDPOINT": "127.0.0.1:9"}, "problem", "cannot be reached", id="nobody there"),
        pytest.param({"APP_LLM_ENDPOINT": "{}/nowhere"}, "problem", "did not list", id="no list, no name"),
        pytest.param(
            {"APP_LLM_ENDPOINT": "{}/nowhere", "APP_LLM_DEFAULT_MODEL": "m"},
            "note",
            "lists no models",
            id="no list",
        ),
        pytest.param(
            {"APP_LLM_ENDPOINT": "{}", "APP_LLM_DEFAULT_MODEL": "x:scripted"},
            "problem",
            "'x:scripted'",
            id="another",
        ),
    ],
)
def test_doctor_says_what_a_task_would_meet_at_an_endpoint(
    tmp_path: Path, env: dict[str, str], state: str, says: str
) -> None:
    with ScriptedEndpoint({}) as endpoint:
        found = model_check(tmp_path, {name: value.format(endpoint.url) for name, value in env.items()})

    assert found["state"] == state
    assert says in found["found"]


def test_models_are_listed_with_their_size_and_licence(tmp_path: Path) -> None:
    rows = json.loads(replan("model", "list", "--json", cwd=tmp_path).stdout)
    assert [row["name"] for row in rows if row["default"]] == ["qwen2.5-coder-1.5b"]
    assert all(row["path"] is None and row["size"] > 10**8 and row["license"] == "Apache-2.0" for row in rows)
    unknown = replan("model", "pull", "gpt-9", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "qwen2.5-coder-1.5b" in unknown.stderr


def test_the_shell_completes_commands_and_choices(tmp_path: Path) -> None:
    env = {"_REPLAN_COMPLETE": "complete_bash", "COMP_WORDS": "replan ta", "COMP_CWORD": "1"}
    assert replan(cwd=tmp_path, env=env).stdout.split() == ["tasks"]
    env |= {"COMP_WORDS": "replan run --evaluation ", "COMP_CWORD": "3"}
    assert replan(cwd=tmp_path, env=env).stdout.split() == ["model", "steps"]


PHOTOS = '''
from replan import tool


@tool(effect="reads")
def photo(size: int) -> dict:
    """Take a photo."""
    from replan.core.references.binary import data_url

    return {"type": "image", "data": data_url(bytes(range(256)) * size, "image/png"), "place": "北京"}


@tool(effect="reads")
def size(data: bytes) -> int:
    """How many bytes there are."""
    return len(data)
'''
PHOTO_PLAN = {
    "steps": [
        {"step_id": "take", "tool": "photo", "parameters": {"size": 40}},
        {"step_id": "weigh", "tool": "size", "parameters": {"data": "${take.output.data}"}},
    ]
}


def test_an_output_of_bytes_is_passed_on_whole_kept_apart_and_written_to_a_file(tmp_path: Path) -> None:
    folder(tmp_path, PHOTO_PLAN)
    (tmp_path / "tools.py").write_text(PHOTOS, encoding="utf-8")
    done = replan(*BY_STEPS, "--task-id", "t", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "10240\n")
    shown = replan("tasks", "show", "t", "--events", cwd=tmp_path).stdout
    assert "…(10,240 bytes)" in shown, "what nobody can read is named by its size"

    saved = replan("tasks", "output", "t", "take", "-o", "photo.png", cwd=tmp_path)
    assert (saved.returncode, saved.stdout) == (0, "")
    assert "photo.png: 10,240 bytes" in saved.stderr
    assert (tmp_path / "photo.png").read_bytes() == bytes(range(256)) * 40
    place = replan("tasks", "output", "t", "take", "--path", "place", cwd=tmp_path)
    assert place.stdout == "北京\n"
    whole = json.loads(replan("tasks", "output", "t", "take", "--json", cwd=tmp_path).stdout)
    assert whole["data"].startswith("data:image/png;base64,")
    for arguments, why in [
        (("t", "nowhere"), "it has: take, weigh"),
        (("t", "take", "--path", "places"), "there is: type, data, place"),
        (("t", "take", "--path", "a["), "no JMESPath"),
        (("t", "take", "-o", "no/such/folder/x"), "cannot be written"),
        (("none", "take"), "none"),
    ]:
        wrong = replan("tasks", "output", *arguments, cwd=tmp_path)
        assert (wrong.returncode, wrong.stdout) == (2, ""), arguments
        assert why in wrong.stderr


def test_how_tools_did_is_kept_across_tasks(tmp_path: Path) -> None:
    none = replan("tools", "stats", cwd=tmp_path)
    assert (none.returncode, none.stdout) == (
        0,
        "no tool was called in a task of this database yet (of imported tasks nothing is counted)\n",
    )
    folder(tmp_path)
    assert replan(*BY_STEPS, cwd=tmp_path).returncode == 0
    for number in range(3):
        folder(tmp_path, one_step("fail", why=f"number {number}"))
        assert replan(*BY_STEPS, cwd=tmp_path).returncode == 1
    table = replan("tools", "stats", cwd=tmp_path).stdout.splitlines()
    assert table[0].split()[:3] == ["tool", "calls", "success"]
    assert [line.split()[:4] for line in table[1:]] == [
        ["fail", "3", "0", "%"],
        ["count", "2", "100", "%"],
        ["add", "1", "100", "%"],
    ]
    assert "3× tool: ValueError: number #" in table[1]
    (row,) = json.loads(replan("tools", "stats", "COUNT", "--json", cwd=tmp_path).stdout)
    assert (row["calls"], row["success_rate"], row["errors"]) == (2, 1.0, [])
    wrong = replan("tools", "stats", "cuont", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean count?" in wrong.stderr


def test_a_list_from_several_sources_says_which_is_whose(tmp_path: Path) -> None:
    folder(tmp_path)
    one = replan("tools", "list", "--tools", "tools.py", cwd=tmp_path).stdout.splitlines()
    assert one[1].split()[:4] == ["add", "once", "Add", "two"]
    two = replan(
        "tools", "list", "--tools", "tools.py", "--tools", "kit:time", cwd=tmp_path
    ).stdout.splitlines()
    assert one[1].split()[0] == two[1].split()[0]
    assert two[1].split()[:4] == ["add", "once", "tools", "Add"]
    assert "now            reads       time   Tell" in "\n".join(two)


def test_rules_of_the_configuration_hold_for_every_command(tmp_path: Path) -> None:
    folder(tmp_path, one_step("count", text="x"))
    (tmp_path / "config.toml").write_text(
        '[tools]\nsources = ["tools.py"]\ndeny = ["stub*", "nothing"]\n'
        '[tools.rules."count"]\neffect = "reads"\nrequires_approval = true\n',
        encoding="utf-8",
    )
    listed = replan("tools", "list", cwd=tmp_path)
    assert "stubborn" not in listed.stdout
    assert "'nothing' of your configuration fits no tool" in listed.stderr
    assert "agree to each call" in replan("tools", "show", "count", cwd=tmp_path).stdout
    ran = replan("run", "--plan", "plan.json", "--evaluation", "steps", cwd=tmp_path)
    assert ran.returncode == 1
    assert "approval" in ran.stderr


def test_a_task_is_exported_and_imported_into_another_database(tmp_path: Path) -> None:
    folder(tmp_path)
    assert replan(*BY_STEPS, "--task-id", "good", cwd=tmp_path).returncode == 0

    made = replan("tasks", "export", "good", "-o", "good.tar", cwd=tmp_path)
    assert made.returncode == 0
    assert "good.tar: good, " in made.stderr
    other = ("--db", "other.db")
    first = replan("tasks", "import", "good.tar", *other, cwd=tmp_path)
    assert (first.returncode, first.stderr) == (0, "imported good (succeeded)\n")
    again = replan("tasks", "import", "good.tar", "--json", *other, cwd=tmp_path)
    assert json.loads(again.stdout) == [
        {"task_id": "good", "status": "succeeded", "new": False, "further": False}
    ]
    assert replan("tasks", "result", "good", *other, cwd=tmp_path).stdout == "7\n"

    (tmp_path / "cut.tar").write_bytes((tmp_path / "good.tar").read_bytes()[:2_000])
    cut = replan("tasks", "import", "cut.tar", "--db", "third.db", cwd=tmp_path)
    assert cut.returncode == 2
    assert "cut.tar was not imported: it is cut off" in cut.stderr
    nowhere = replan("tasks", "export", "good", "-o", "none/x.tar", cwd=tmp_path)
    assert nowhere.returncode == 2
    assert "cannot be written" in nowhere.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith(".part")) == []


def test_a_device_or_a_pipe_is_written_to_and_nothing_is_given_away_to_one(tmp_path: Path) -> None:
    folder(tmp_path)
    assert replan(*BY_STEPS, "--task-id", "good", cwd=tmp_path).returncode == 0
    (tmp_path / "nowhere").symlink_to("/dev/null")  # a file beside it is all that could be put in its place
    made = replan("tasks", "export", "good", "-o", "nowhere", cwd=tmp_path)
    assert (made.returncode, made.stderr.partition(",")[0]) == (0, "nowhere: good")
    assert (tmp_path / "nowhere").is_char_device()
    moved = replan("tasks", "export", "good", "-o", "nowhere", "--move", cwd=tmp_path)
    assert moved.returncode == 2
    assert "keeps nothing" in moved.stderr
    assert replan("tasks", "result", "good", cwd=tmp_path).stdout == "7\n"
    (tmp_path / "there.tar").write_bytes(b"")
    (tmp_path / "link.tar").symlink_to("there.tar")
    assert replan("tasks", "export", "good", "-o", "link.tar", "--force", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link.tar").is_symlink()
    assert (tmp_path / "there.tar").stat().st_size > 1_000


def test_tasks_are_pruned_when_it_was_said_which(tmp_path: Path) -> None:
    folder(tmp_path)
    assert replan(*BY_STEPS, "--task-id", "good", cwd=tmp_path).returncode == 0

    assert replan("tasks", "prune", cwd=tmp_path).returncode == 2
    wrong = replan("tasks", "prune", "--older-than", "30", cwd=tmp_path)
    assert "a number and m, h, d or w" in wrong.stderr
    assert (
        "would remove no task" not in replan("tasks", "prune", "--status", "succeeded", cwd=tmp_path).stderr
    )
    kept = json.loads(replan("tasks", "prune", "--older-than", "1d", "--yes", "--json", cwd=tmp_path).stdout)
    assert (kept["tasks"], kept["removed"]) == ([], True)
    told = replan("tasks", "prune", "--larger-than", "1", cwd=tmp_path)
    assert told.stdout.startswith("good  ")
    assert "would remove 1 task, " in told.stderr
    gone = replan("tasks", "prune", "--larger-than", "1", "--yes", cwd=tmp_path)
    assert "removed 1 task, " in gone.stderr
    assert json.loads(replan("tasks", "list", "--json", cwd=tmp_path).stdout) == []
