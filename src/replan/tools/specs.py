"""Tools named on a command line or in a configuration: which kind of source a SPEC means."""

from __future__ import annotations

import re
from pathlib import Path

from replan.core.hosts import url_parts
from replan.errors import InputError
from replan.ports import ToolSource
from replan.tools.loading import PYTHON_FORMS, load_tools

_KIND = re.compile(r"(mcp|openapi|kit|grpcs?|https?)(:)", re.IGNORECASE)
_OPENAPI = re.compile(rb"""^\s*\{?\s*["']?(openapi|swagger)["']?\s*:""", re.MULTILINE)
_HEAD = 100_000
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
FORMS = (
    f"{PYTHON_FORMS}, a file of MCP servers (mcp.json), an OpenAPI document (api.yaml), mcp:COMMAND or mcp:URL, openapi:FILE or openapi:URL, "
    "kit:NAME, or a tool service (grpc://HOST:PORT, http://HOST:PORT)"
)


def load_sources(spec: str) -> list[ToolSource]:
    """The sources that a SPEC names; most SPECs name one.

    What Python can load is told by `load_tools`. `mcp:COMMAND ARGUMENTS…` starts an MCP server, `mcp:URL` and a URL
    whose path ends with `/mcp` or `/sse` reach one, a `.json` file names several. `openapi:FILE` or `openapi:URL` is a
    document, `kit:…` a part of the tool kit; `grpc://…` and other `http://…` are tool services.
    Nothing is connected or started before it is listed. Raises `InputError`.
    """
    text = spec.strip()
    if not text:
        raise InputError(f"an empty name of tools; what can be loaded is {FORMS}")
    found = _KIND.match(text)
    if found is None:
        if scheme := _SCHEME.match(text):
            raise InputError(
                f"{scheme[0]} is not a kind of tools that there is ({spec!r}); what can be loaded is {FORMS}"
            )
        if text.lower().endswith((".json", ".yaml", ".yml")) and _is_openapi(Path(text).expanduser()):
            return load_sources(f"openapi:{text}")
        if text.lower().endswith((".yaml", ".yml")):
            there = Path(text).expanduser().is_file()
            why = "is not an OpenAPI document" if there else "is not there"
            raise InputError(f"the file {text} {why}; what can be loaded is {FORMS}")
        if text.lower().endswith(".json"):
            from replan.tools.mcp import from_file

            return list(from_file(Path(text).expanduser()))
        return [load_tools(text)]
    kind, rest = found[1].lower(), text[found.end() :].strip()
    if not rest.strip("/"):
        raise InputError(f"{spec!r} is incomplete: something has to follow {found[0]!r}")
    match kind:
        case "mcp":
            from replan.tools.mcp import from_command

            return [from_command(rest)]
        case "openapi":
            from replan.tools.openapi import load

            source = load(rest)
            place = rest.partition("#")[0]
            if not _SCHEME.match(place) and not Path(place).expanduser().is_file():
                raise InputError(f"there is no file {place}; openapi: takes a file or a URL")
            return [source]
        case "kit":
            from replan.tools import kit

            return [kit.load(rest)]
    if kind in ("http", "https") and _is_mcp(text):
        from replan.tools.mcp import from_command

        return [from_command(text)]
    from replan.tools import remote

    return [remote.load(text)]


def same_spec(spec: str) -> str:
    """The SPEC in a form in which the same file is written alike."""
    text = spec.strip()
    found = _KIND.match(text)
    kind, rest = (found[0].lower(), text[found.end() :].strip()) if found else ("", text)
    place, hash_, part = rest.partition("#")
    path = Path(place).expanduser()
    try:
        return f"{kind}{path.resolve()}{hash_}{part}" if path.exists() else f"{kind}{rest}"
    except OSError:  # longer than a name may be
        return f"{kind}{rest}"


def _is_openapi(path: Path) -> bool:
    """True if the file looks like an OpenAPI document; its first part tells."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return _OPENAPI.search(head) is not None


def _is_mcp(url: str) -> bool:
    return url_parts(url).path.rstrip("/").rpartition("/")[2].lower() in ("mcp", "sse")
