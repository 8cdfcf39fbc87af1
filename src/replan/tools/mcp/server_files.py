"""MCP servers as other clients write them down: `mcpServers` (Claude, Cursor) and `servers` (VS Code)."""

from __future__ import annotations

import codecs
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from replan.core.words import kind_of
from replan.errors import InputError
from replan.files import Unusable, read_bounded, read_json
from replan.tools.expand import expanded
from replan.tools.mcp.servers import HttpServer, OAuth, Server, StdioServer, checked
from replan.tools.mcp.source import McpSource
from replan.tools.mcp.unusable import UnusableServer

_ALLOW = ("includeTools", "enabledTools", "enabled_tools", "allowedTools")
_DENY = ("excludeTools", "disabledTools", "disabled_tools")
"""Lists that other clients keep of what may be used."""
_URLS = ("url", "serverUrl", "httpUrl")
_STDIO, _HTTP, _SSE = ("stdio", "local"), ("http", "streamable-http", "streamableHttp", "remote"), ("sse",)


def from_command(text: str) -> McpSource:
    """The server of a command line (`npx -y @scope/server /data`), or of an http(s) address.

    The command is split as a POSIX shell splits it; no shell runs it. `InputError` for what is neither.
    """
    line = text.strip()
    if re.match(r"https?://", line, re.IGNORECASE):
        if " " in line:
            raise InputError(f"{line!r} is not an address: it has a space in it")
        return McpSource(HttpServer(line))
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError(f"mcp:{text}: this cannot be split into words: {error}") from None
    if not words:
        raise InputError("mcp: needs a command or an address: mcp:npx -y SERVER, or mcp:https://host/mcp")
    return McpSource(StdioServer(words[0], tuple(words[1:])))


def from_file(path: str | Path) -> list[McpSource | UnusableServer]:
    """Every server of a JSON file of another client, in its order, those that are disabled left out.

    A server of a type that is not known here is a source without tools that says so. `InputError` for all else that is
    wrong says file, server and key. Comments and commas before a closing bracket, which editors allow, are
    read over.
    """
    path = Path(path).expanduser()
    try:
        text = _decoded(read_bounded(path))
    except FileNotFoundError:
        raise InputError(f"there is no file {path} with MCP servers") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    try:
        document = read_json(text)
    except Unusable as error:
        raise InputError(f"{path}: {error}") from None
    except ValueError as error:
        try:
            document = read_json(_strict(text))
        except Unusable as wrong:
            raise InputError(f"{path}: {wrong}") from None
        except ValueError:
            raise InputError(f"{path} is not JSON: {error}") from None
    servers = _servers_of(document, str(path))
    folder = path.absolute().parent
    workspace = folder.parent if folder.name in (".vscode", ".cursor") else folder
    made = [_source(name, entry, f"{path}: {name}", workspace) for name, entry in servers.items()]
    return [source for source in made if source is not None]


def from_table(table: Mapping[str, Any]) -> list[McpSource | UnusableServer]:
    """The servers of a table `{name: {command or url, …}}`, for instance of a configuration file in TOML."""
    if not isinstance(table, Mapping):
        raise InputError(
            f"MCP servers are a table {{name: {{command or url, …}}}}, not a {type(table).__name__}"
        )
    made = [_source(name, entry, f"mcp.{name}", Path.cwd()) for name, entry in table.items()]
    return [source for source in made if source is not None]


def _servers_of(document: Any, where: str) -> Mapping[str, Any]:
    right = '{"mcpServers": {"name": {"command": …}}}'
    if not isinstance(document, dict):
        raise InputError(f"{where}: it holds {kind_of(document)}, not an object like {right}")
    nested = document.get("mcp")
    places = [document, nested if isinstance(nested, dict) else {}]
    for key in ("mcpServers", "servers"):
        for place in places:
            if key in place:
                if not isinstance(place[key], dict):
                    raise InputError(
                        f"{where}: {key} is {kind_of(place[key])}, not an object of servers by name"
                    )
                return place[key]  # type: ignore[no-any-return]
    has = ", ".join(map(repr, list(document)[:5])) or "nothing"
    raise InputError(f"{where}: it has neither mcpServers nor servers (it has {has}); right is {right}")


def _decoded(raw: bytes) -> str:
    """UTF-8, or what a mark of byte order says: some editors and shells write UTF-16."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16")
    return raw.decode("utf-8-sig")


def _source(name: str, entry: Any, where: str, workspace: Path) -> McpSource | UnusableServer | None:
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: a server is an object with command or url, not {kind_of(entry)}")
    read = _Entry(entry, where, workspace)
    if read.flag("disabled") or not read.flag("enabled", True):
        return None
    kind = read.text("type") or read.text("transport")
    if kind is not None and kind not in (*_STDIO, *_HTTP, *_SSE):
        why = f"{where}: the type {kind!r} is not known; there are stdio, http and sse"
        return UnusableServer(name, why)
    server = checked(_server(read), where)
    return McpSource(server, name=name, where=where, **_options(read))


def _server(read: _Entry) -> Server:
    kind = read.text("type") or read.text("transport")
    url = next((found for key in _URLS if (found := read.text(key))), None)
    command = read.value("command")
    if kind in _STDIO or (kind is None and command is not None and url is None):
        return _stdio(read, command)
    if url is None:
        needs = f"the type {kind!r} needs an url" if kind else "it needs a command or an url"
        raise InputError(f"{read.where}: {needs}; it has {read.keys()}")
    if kind is None and command is not None:
        raise InputError(f"{read.where}: it has a command and an url; say which by type: stdio or http")
    headers = read.texts("headers")
    if (bearer := read.text("bearer") or read.text("bearerToken")) is not None:
        headers = {**headers, "Authorization": f"Bearer {bearer}"}
    return HttpServer(
        url,
        headers,
        "sse"
        if kind in _SSE or (kind is None and url.partition("?")[0].rstrip("/").endswith("/sse"))
        else "http",
        _oauth(read),
        read.roots(),
    )


def _stdio(read: _Entry, command: Any) -> StdioServer:
    words: list[str]
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        words = command
    elif isinstance(command, str) and command.strip():
        words = [command]
    else:
        raise InputError(f"{read.where}: command is the program to start, a text; it is {command!r}")
    args = read.value("args") or []
    if not isinstance(args, list):
        raise InputError(f'{read.where}: args is a list of texts, not {kind_of(args)}: ["-y", "server"]')
    for index, arg in enumerate(args):
        if isinstance(arg, bool) or not isinstance(arg, str | int | float):
            raise InputError(f"{read.where}: args[{index}] is {kind_of(arg)}, not a text")
    cwd = read.text("cwd")
    if cwd is not None and not Path(cwd).expanduser().is_dir():
        raise InputError(f"{read.where}: cwd {cwd!r} is not a folder")
    return StdioServer(
        words[0],
        (*words[1:], *map(str, args)),
        {**_env_file(read), **read.texts("env")},
        Path(cwd).expanduser().absolute() if cwd is not None else None,
        read.roots(),
    )


_ASSIGNED = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)")


def _env_file(read: _Entry) -> dict[str, str]:
    """The variables of VS Code's `envFile`: NAME=VALUE lines, values in quotes or not; `env` wins over them."""
    told = read.text("envFile")
    if told is None:
        return {}
    path = read.workspace / Path(told).expanduser()
    try:
        lines = _decoded(read_bounded(path)).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{read.where}: envFile {told!r} cannot be read: {error}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (assigned := _ASSIGNED.fullmatch(line)) is None:
            raise InputError(f"{read.where}: envFile {told!r}: line {number} is not NAME=VALUE")
        name, value = assigned[1], assigned[2].strip()
        if quoted := re.fullmatch(r"""(["'])(.*?)\1(?:\s+#.*)?""", value):
            value = quoted[2].replace("\\n", "\n") if quoted[1] == '"' else quoted[2]
        else:
            value = re.sub(r"(?:^|(?<!\s)\s+)#.*$", "", value)
        found[name] = value
    return found


def _oauth(read: _Entry) -> OAuth | None:
    told = read.value("oauth")
    if told is None or told is False:
        return None
    if told is True:
        return OAuth()
    if not isinstance(told, Mapping):
        raise InputError(
            f"{read.where}: oauth is true or an object with clientId and the like, not {kind_of(told)}"
        )
    inner = _Entry(told, f"{read.where}: oauth", read.workspace, expand=False)
    port = inner.number("callbackPort", "callback_port")
    file = inner.text("tokenFile") or inner.text("token_file")
    return replace(
        OAuth(),
        client_id=inner.text("clientId") or inner.text("client_id"),
        client_secret=inner.text("clientSecret") or inner.text("client_secret"),
        issuer=inner.text("issuer"),
        scope=inner.text("scope"),
        callback_port=int(port) if port else 0,
        token_file=Path(file).expanduser().absolute() if file else None,
    )


def _options(read: _Entry) -> dict[str, Any]:
    """What is said of Replan's side: limits, trust, and each tool's own settings."""
    found: dict[str, Any] = {"trust_annotations": read.flag("trust_annotations", True)}
    start = read.number("startupTimeout", "startup_timeout_sec", "start_timeout_secs", "initTimeout")
    if start is not None:
        found["start_timeout_secs"] = _seconds(start)
    # "timeout" is milliseconds in Gemini's and Claude's files, seconds in others: a second of timeout helps nobody.
    limit = read.number("timeout", "tool_timeout_sec", "timeout_secs")
    if limit is not None:
        found["timeout_secs"] = _seconds(limit)
    tools = read.value("tools")
    if isinstance(tools, Mapping):
        found["tools"] = tools
        tools = None  # a list there is another client's list of what may be called
    allow = read.names(*_ALLOW, *(() if tools is None else ("tools",)))
    if allow is not None and "*" not in allow:
        found["allow"] = allow
    found["deny"] = read.names(*_DENY) or ()
    if (protocol := read.text("protocol")) is not None:
        found["protocol"] = protocol
    return found


def _seconds(number: float) -> float:
    return number / 1000 if number >= 1000 else number


class _Entry:
    """The object of one server: its values with variables replaced, each checked as it is read."""

    def __init__(self, entry: Mapping[str, Any], where: str, workspace: Path, *, expand: bool = True) -> None:
        self.where = where
        self.workspace = workspace
        self._entry = entry
        self._expand = expand

    def keys(self) -> str:
        return ", ".join(map(str, self._entry)) or "nothing"

    def value(self, key: str) -> Any:
        raw = self._entry.get(key)
        if not self._expand:
            return raw
        places = {"workspaceFolder": str(self.workspace), "userHome": str(Path.home())}
        return expanded(raw, os.environ, f"{self.where}: {key}", places)

    def text(self, key: str) -> str | None:
        return self._read(key, lambda value: isinstance(value, str), "a text")  # type: ignore[no-any-return]

    def flag(self, key: str, default: bool = False) -> bool:
        found = self._read(key, lambda value: isinstance(value, bool), "true or false")
        return default if found is None else bool(found)

    def number(self, *keys: str) -> float | None:
        for key in keys:
            found = self._read(
                key,
                lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value > 0,
                "a number above 0",
            )
            if found is not None:
                return float(found)
        return None

    def texts(self, key: str) -> dict[str, str]:
        found = self.value(key)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            raise InputError(f"{self.where}: {key} is an object of texts, not {kind_of(found)}")
        texts: dict[str, str] = {}
        for name, value in found.items():
            if value is None:
                continue  # VS Code: the variable is taken away; it was never given
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise InputError(f"{self.where}: {key}.{name} is {kind_of(value)}, not a text")
            texts[name] = str(value)
        return texts

    def names(self, *keys: str) -> tuple[str, ...] | None:
        """The texts of all these lists together; None where none of them is there."""
        found: list[str] | None = None
        for key in keys:
            listed = self._read(
                key,
                lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
                "a list of names of tools",
            )
            if listed is not None:
                found = [*(found or []), *listed]
        return None if found is None else tuple(found)

    def roots(self) -> tuple[Path, ...]:
        found = self.value("roots") or []
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise InputError(f"{self.where}: roots is a list of folders")
        return tuple(Path(each).expanduser().absolute() for each in found)

    def _read(self, key: str, fits: Callable[[Any], bool], right: str) -> Any:
        found = self.value(key)
        if found is None or fits(found):
            return found
        raise InputError(f"{self.where}: {key} is {right}, not {json.dumps(found, default=str)[:80]}")


_TEXT = r'"(?:\\.|[^"\\])*(?:"|\Z)'
_COMMENT = re.compile(_TEXT + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(_TEXT + r"|,(?=\s*[}\]])", re.DOTALL)


def _strict(text: str) -> str:
    """JSON with comments as JSON: comments, and then trailing commas, gone; texts untouched."""
    for noise in (_COMMENT, _COMMA):
        text = noise.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    return text
