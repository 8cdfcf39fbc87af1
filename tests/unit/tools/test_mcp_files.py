"""MCP servers as other clients write them down, and the names they get."""

from __future__ import annotations

import codecs
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.errors import InputError
from replan.tools.expand import expand
from replan.tools.mcp import HttpServer, McpSource, OAuth, StdioServer, from_command, from_file, from_table
from replan.tools.mcp.servers import default_name

pytestmark = pytest.mark.anyio
VARIABLE = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)
PLAIN = st.text(st.characters(blacklist_characters="${}", blacklist_categories=["Cs"]), max_size=20)


def written(path: Path, document: Any) -> Path:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def one(entry: dict[str, Any]) -> McpSource:
    (source,) = from_table({"it": entry})
    assert isinstance(source, McpSource)
    return source


# ── variables ─────────────────────────────────────────────────────────────────


@given(
    parts=st.lists(st.tuples(PLAIN, VARIABLE)),
    values=st.dictionaries(VARIABLE, st.text(min_size=1)),
    end=PLAIN,
)
def test_every_variable_is_replaced_once_and_the_rest_stays(
    parts: list[tuple[str, str]], values: dict[str, str], end: str
) -> None:
    values = {**{name: "${X} $Y" for _, name in parts}, **values}
    for form in ("${%s}", "${env:%s}", "${%s:-other}", "${env:%s:-other}"):
        text = "".join(plain + form % name for plain, name in parts) + end
        assert expand(text, values, "here") == "".join(plain + values[name] for plain, name in parts) + end


@given(plain=PLAIN, name=VARIABLE, default=PLAIN)
def test_a_default_stands_in_for_what_is_not_set_or_empty(plain: str, name: str, default: str) -> None:
    text = f"{plain}${{{name}:-{default}}}"
    assert expand(text, {}, "here") == plain + default
    assert expand(text, {name: ""}, "here") == plain + default
    assert expand(f"${{{name}}}", {name: ""}, "here") == ""


@given(text=st.text())
def test_a_text_without_variables_stays_as_it_is(text: str) -> None:
    if "${" not in text:
        assert expand(text, {}, "here") == text


@given(text=st.text(alphabet="${}:-envX A", max_size=30))
def test_any_text_is_expanded_or_refused_in_words(text: str) -> None:
    try:
        assert isinstance(expand(text, {"X": "1"}, "here"), str)
    except InputError as error:
        assert str(error).startswith("here: ")  # noqa: PT017


def test_what_is_not_set_is_named() -> None:
    with pytest.raises(InputError, match=r"here: the environment variable TOKEN is not set.*\$\{TOKEN:-…\}"):
        expand("Bearer ${TOKEN}", {}, "here")
    with pytest.raises(InputError, match=r"\$\{input:key\} is known to an editor only"):
        expand("${input:key}", {}, "here")


# ── files ─────────────────────────────────────────────────────────────────────


def test_a_file_of_claude_desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k-123456")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = written(
        tmp_path / "claude_desktop_config.json",
        {
            "globalShortcut": "x",
            "mcpServers": {
                "files": {
                    "command": "npx",
                    "args": ["-y", "server", "${HOME}"],
                    "env": {"K": "${KEY}", "N": 1},
                },
                "off": {"command": "npx", "disabled": True},
                "far": {
                    "type": "http",
                    "url": "https://x.example/mcp",
                    "headers": {"Authorization": "Bearer ${env:KEY}"},
                    "autoApprove": ["*"],
                    "alwaysAllow": [],
                },
            },
        },
    )
    files, far = from_file(path)
    assert files.name == "files"
    assert isinstance(files.server, StdioServer)
    assert files.server.args[2] == str(tmp_path / "home")
    assert files.server.env == {"K": "k-123456", "N": "1"}
    assert isinstance(far.server, HttpServer)
    assert far.server.headers == {"Authorization": "Bearer k-123456"}
    assert far.server.known.hide("sent Bearer k-123456 and k-123456") == "sent *** and ***"


def test_a_file_of_vs_code_with_comments(tmp_path: Path) -> None:
    folder = tmp_path / ".vscode"
    folder.mkdir()
    text = """{
      // what we use
      "inputs": [],
      "servers": {
        "web": {"type": "sse", "url": "http://localhost:1/sse"}, /* old */
        "here": {"type": "stdio", "command": "x", "args": ["${workspaceFolder}/a", "//no comment, ]"],},
      },
    }"""
    web, here = from_file(written(folder / "mcp.json", text))
    assert isinstance(web.server, HttpServer)
    assert web.server.transport == "sse"
    assert isinstance(here.server, StdioServer)
    assert here.server.args == (f"{tmp_path}/a", "//no comment, ]")


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"url": "https://h/mcp"}, "http"),
        ({"serverUrl": "https://h/mcp"}, "http"),
        ({"httpUrl": "https://h/mcp"}, "http"),
        ({"url": "https://h/mcp", "transport": "streamable-http"}, "http"),
        ({"url": "https://h/mcp", "type": "sse"}, "sse"),
        ({"url": "https://h/sse"}, "sse"),
        ({"url": "https://h/sse?x=1"}, "sse"),
    ],
)
def test_addresses_under_every_name(entry: dict[str, Any], transport: str) -> None:
    server = one(entry).server
    assert isinstance(server, HttpServer)
    assert server.transport == transport


def test_oauth_and_settings_of_tools() -> None:
    source = one(
        {
            "url": "https://h/mcp",
            "oauth": {"clientId": "me", "clientSecret": "s3cret", "issuer": "https://as", "scope": "a b"},
            "tools": {"a": {"effect": "reads"}},
            "timeout": 60_000,
            "trust_annotations": False,
        }
    )
    assert isinstance(source.server, HttpServer)
    assert source.server.oauth == OAuth("me", "s3cret", "https://as", "a b")


@pytest.mark.parametrize(
    ("document", "word"),
    [
        pytest.param("{", "not JSON", id="no JSON"),
        pytest.param([], "list, not an object", id="a list"),
        pytest.param({}, "neither mcpServers nor servers", id="empty"),
        pytest.param({"mcpServers": []}, "mcpServers is a list", id="servers in a list"),
        pytest.param({"mcpServers": {"a": "x"}}, "a: a server is an object", id="a text"),
        pytest.param(
            {"mcpServers": {"a": {}}}, "a: it needs a command or an url; it has nothing", id="nothing"
        ),
        pytest.param({"mcpServers": {"a": {"type": "http", "command": "x"}}}, "needs an url", id="no url"),
        pytest.param({"mcpServers": {"a": {"command": ""}}}, "a: command is", id="no command"),
        pytest.param({"mcpServers": {"a": {"command": "x", "args": "-y"}}}, "a: args is a list", id="args"),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "args": [{}]}}}, r"args\[0\] is an object", id="an arg"
        ),
        pytest.param({"mcpServers": {"a": {"command": "x", "env": {"K": []}}}}, "env.K is a list", id="env"),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "env": {"K": "${NO_SUCH}"}}}},
            "a: env.K: .*NO_SUCH",
            id="var",
        ),
        pytest.param({"mcpServers": {"a": {"command": "x", "cwd": "/no/such"}}}, "cwd '/no/such'", id="cwd"),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "disabled": "no"}}}, "disabled is true or false", id="flag"
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "timeout": -1}}}, "timeout is a number", id="timeout"
        ),
        pytest.param({"mcpServers": {"a": {"url": "ftp://x"}}}, "a: 'ftp://x' is not an http", id="ftp"),
        pytest.param(
            {"mcpServers": {"a": {"url": "http://u:p@x"}}}, "into a header", id="password in the address"
        ),
        pytest.param(
            {"mcpServers": {"a": {"url": "http://x", "headers": {"A": "a\nb"}}}}, "header 'A'", id="header"
        ),
        pytest.param({"mcpServers": {"a": {"url": "http://x", "oauth": 1}}}, "oauth is true or", id="oauth"),
        pytest.param(
            {"mcpServers": {"a": {"url": "http://x", "oauth": {"clientSecret": "s"}}}},
            "issuer together",
            id="secret",
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "tools": {"t": "writes"}}}},
            "tools.t is one of",
            id="effect",
        ),
        pytest.param(
            {"mcpServers": {"a": {"command": "x", "tools": {"t": {"volatile": 1}}}}},
            "volatile is true or",
            id="override",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, document: Any, word: str) -> None:
    path = written(tmp_path / "mcp.json", document)
    with pytest.raises(InputError, match=word) as caught:
        from_file(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        from_file(tmp_path / "none.json")


# ── command lines and names ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("npx -y @modelcontextprotocol/server-everything", "everything"),
        ("npx -y @modelcontextprotocol/server-filesystem@1.2 /data", "filesystem"),
        ("uvx mcp-server-git --repository .", "git"),
        ("python -m mcp_server_time", "time"),
        ("python3.12 tools/weather.py", "weather"),
        ("node node_modules/@x/server-memory/dist/index.js", "memory"),
        ("/usr/bin/my-server", "my"),
        ("https://mcp.linear.app/mcp", "linear"),
        ("http://127.0.0.1:8000/mcp", "mcp"),
        ("python", "mcp"),
        ("server --key sk-123456", "mcp"),
        ("docker run -i --rm mcp/fetch", "fetch"),
    ],
)
def test_a_source_is_named_after_what_it_is(text: str, name: str) -> None:
    assert default_name(from_command(text).server) == name


def test_a_command_line_is_split_as_a_shell_does() -> None:
    server = from_command("""run "a b" 'c "d"' e\\ f""").server
    assert server == StdioServer("run", ("a b", 'c "d"', "e f"))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "needs a command or an address"),
        ("run 'open", "cannot be split"),
        ("http://a b", "has a space"),
        ("http://", "not an http"),
    ],
)
def test_what_is_no_command_line(text: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        from_command(text)


def test_nothing_heavy_is_imported_before_a_server_is_opened() -> None:
    code = "import sys, replan.tools.mcp as m; m.from_command('npx x'); print([n for n in sys.modules if n.split('.')[0] in ('mcp', 'httpx2', 'starlette')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_library_it_is_said_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['mcp'] = None\nfrom replan.tools.mcp import from_command\n"
        "try: from_command('npx x')\nexcept Exception as e: print(type(e).__name__, e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "InputError tools of MCP servers need: pip install 'replan[mcp]'"


@pytest.mark.parametrize(
    ("lists", "allow", "deny"),
    [
        ({}, None, set()),
        ({"disabledTools": ["a"], "excludeTools": ["b"]}, None, {"a", "b"}),
        ({"includeTools": ["a", "b"], "excludeTools": ["b"]}, {"a", "b"}, {"b"}),
        ({"enabled_tools": [], "disabled_tools": ["c"]}, set(), {"c"}),
        ({"tools": ["a"]}, {"a"}, set()),
        ({"tools": ["*"]}, None, set()),
        ({"tools": {"a": "reads"}}, None, set()),
    ],
)
def test_lists_of_what_may_be_used_hold(
    tmp_path: Path, lists: dict[str, Any], allow: set[str] | None, deny: set[str]
) -> None:
    entry = {"command": "x", **lists}
    (source,) = from_file(written(tmp_path / "mcp.json", {"mcpServers": {"s": entry}}))
    assert (source._allow, source._deny) == (None if allow is None else frozenset(allow), frozenset(deny))


def test_a_list_of_tools_that_is_none_is_told(tmp_path: Path) -> None:
    entry = {"command": "x", "disabledTools": "delete"}
    with pytest.raises(InputError, match="s: disabledTools is a list of names of tools"):
        from_file(written(tmp_path / "mcp.json", {"mcpServers": {"s": entry}}))


# ── what other clients have besides ───────────────────────────────────────────


async def test_a_server_of_an_unknown_type_takes_no_other_along(tmp_path: Path) -> None:
    servers = {
        "tunnel": {"type": "websocket", "url": "ws://127.0.0.1:1"},
        "local": {"type": "stdio", "command": "npx"},
    }
    unusable, usable = from_file(written(tmp_path / "mcp.json", {"servers": servers}))
    assert isinstance(usable, McpSource)
    assert [spec.id for spec in await unusable.tools()] == []
    (problem,) = unusable.problems()
    assert "tunnel: the type 'websocket' is not known" in problem.message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_file_may_begin_with_a_mark_of_byte_order(tmp_path: Path, encoding: str) -> None:
    text = json.dumps({"mcpServers": {"it": {"command": "npx", "args": ["ü"]}}}, ensure_ascii=False)
    mark = codecs.BOM_UTF16_LE if encoding == "utf-16-le" else b""
    (tmp_path / "mcp.json").write_bytes(mark + text.encode(encoding))
    (source,) = from_file(tmp_path / "mcp.json")
    assert isinstance(source, McpSource)
    assert source.server == StdioServer("npx", ("ü",))


ENV_FILE = """
# comment
PLAIN=one two   # behind
export EXPORTED=three
QUOTED="four # five\\n"
SINGLE='six'
EMPTY=
URL=http://host/a#b
BOTH=file
"""


@pytest.mark.parametrize("place", ["dev.env", "${workspaceFolder}/dev.env"])
def test_the_variables_of_an_env_file_are_given_to_the_server(tmp_path: Path, place: str) -> None:
    (tmp_path / "dev.env").write_text(ENV_FILE)
    (tmp_path / ".vscode").mkdir()
    entry = {"command": "npx", "envFile": place, "env": {"BOTH": "entry"}}
    (source,) = from_file(written(tmp_path / ".vscode" / "mcp.json", {"servers": {"it": entry}}))
    assert isinstance(source.server, StdioServer)
    assert source.server.env == {
        "PLAIN": "one two",
        "EXPORTED": "three",
        "QUOTED": "four # five\n",
        "SINGLE": "six",
        "EMPTY": "",
        "URL": "http://host/a#b",
        "BOTH": "entry",
    }


@pytest.mark.parametrize(
    ("text", "match"), [(None, "envFile 'x.env' cannot be read"), ("A=1\nwhat is this", "line 2 is not")]
)
def test_an_env_file_that_cannot_be_read_is_told(tmp_path: Path, text: str | None, match: str) -> None:
    if text is not None:
        (tmp_path / "x.env").write_text(text)
    servers = {"it": {"command": "npx", "envFile": "x.env"}}
    with pytest.raises(InputError, match=match):
        from_file(written(tmp_path / "mcp.json", {"servers": servers}))
