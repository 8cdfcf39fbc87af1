"""Lines of files that contain something. Regular expressions run in a process that can be stopped."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from functools import partial
from typing import Any, TypedDict

from replan.errors import ToolCallError
from replan.tools.functions.context import time_left
from replan.tools.kit.folders.globs import matcher
from replan.tools.kit.folders.rooted import Root, kind_of
from replan.tools.kit.folders.text import encoding_of
from replan.tools.large_json import parsed, taken
from replan.tools.processes import plain_environment, run_program

_MOST_BYTES = 50_000_000
_MOST_OF_A_FILE = 10_000_000
_MOST_OF_A_LINE = 500
_REGEX_SECS = 10.0

# A pattern that backtracks for ever holds the interpreter's lock: in this process nothing could stop it.
# It may take long to be compiled, too.
_WORKER = """
import json, re, sys
given = sys.stdin.buffer
pattern, flags, limit, longest, files = json.loads(given.readline())
try:
    found, regex = [], re.compile(pattern, flags)
except (re.error, OverflowError, RecursionError) as error:
    json.dump({"wrong": str(error)}, sys.stdout)
    sys.exit()
for path, size in files:
    text = given.read(size).decode("utf-8", "surrogatepass")
    for number, line in enumerate(text.split("\\n"), 1):
        if regex.search(line):
            found.append([path, number, line])
            if len(found) > limit:
                break
    if len(found) > limit:
        break
json.dump([[path, number, line[:longest]] for path, number, line in found], sys.stdout)
"""


class Hit(TypedDict):
    path: str
    line: int
    text: str


class Hits(TypedDict):
    """The lines; `skipped` are files too large or no text, `truncated` if there may be more lines."""

    hits: list[Hit]
    files_searched: int
    skipped: list[str]
    truncated: bool


async def search(
    folder: Root, query: str, path: str, pattern: str, regex: bool, ignore_case: bool, limit: int
) -> Hits:
    flags = re.IGNORECASE if ignore_case else 0
    texts, skipped, more = await asyncio.to_thread(_texts, folder, path, pattern)
    if regex:
        found = await _by_process(query, flags, limit, texts)
    else:
        found = await asyncio.to_thread(_plainly, query, ignore_case, limit, texts)
    return {
        "hits": [{"path": path, "line": line, "text": text} for path, line, text in found[:limit]],
        "files_searched": len(texts),
        "skipped": skipped[:100],
        "truncated": more or len(found) > limit,
    }


def _texts(folder: Root, path: str, pattern: str) -> tuple[list[tuple[str, str]], list[str], bool]:
    """The texts of the files that fit, at most 50 MB of them; what was left out; whether the limit was met."""
    fits, start = matcher(pattern), "/".join(folder.parts(path))
    texts: list[tuple[str, str]] = []
    skipped: list[str] = []
    room = _MOST_BYTES
    for found in folder.walk(path):
        if kind_of(found.status) != "file" or not fits(found.path[len(start) :].lstrip("/")):
            continue
        if found.status.st_size > _MOST_OF_A_FILE:
            skipped.append(found.path)
            continue
        try:
            with os.fdopen(folder.open(found.path), "rb") as file:
                data = file.read(_MOST_OF_A_FILE)
        except ToolCallError:  # it has gone, or may not be read
            skipped.append(found.path)
            continue
        encoding = encoding_of(data)
        if encoding is None:
            skipped.append(found.path)
            continue
        room -= len(data)
        if room < 0:
            return texts, skipped, True
        texts.append((found.path, data.decode(encoding, "replace").replace("\r\n", "\n")))
    return texts, skipped, False


def _plainly(
    query: str, ignore_case: bool, limit: int, texts: list[tuple[str, str]]
) -> list[tuple[str, int, str]]:
    wanted = query.casefold() if ignore_case else query
    found: list[tuple[str, int, str]] = []
    for path, text in texts:
        if wanted not in (text.casefold() if ignore_case else text):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if wanted in (line.casefold() if ignore_case else line):
                found.append((path, number, line[:_MOST_OF_A_LINE]))
                if len(found) > limit:
                    return found
    return found


async def _by_process(
    query: str, flags: int, limit: int, texts: list[tuple[str, str]]
) -> list[tuple[str, int, str]]:
    order = await asyncio.to_thread(_order, [query, int(flags), limit, _MOST_OF_A_LINE], texts)
    try:
        ended = await run_program(
            [sys.executable, "-I", "-S", "-c", _WORKER],
            what="the search by a regular expression",
            env=plain_environment(),
            stdin=order,
            timeout_secs=time_left(_REGEX_SECS),
            max_output_bytes=20_000_000,
        )
    except ToolCallError as error:
        if error.kind != "timeout":
            raise
        text = (
            "query: this regular expression takes too long on these files; write a simpler one, or plain text"
        )
        raise ToolCallError(text, kind="parameter", happened="no") from error
    if ended.exit_code != 0:
        raise ToolCallError(f"the search failed: {ended.stderr.text[-300:]}", happened="no")
    said = await taken(partial(parsed, ended.stdout.text), len(ended.stdout.text))
    if isinstance(said, dict):
        text = f"query is not a regular expression: {said['wrong']}; set regex to false to look for it as plain text"
        raise ToolCallError(text, kind="parameter", happened="no")
    return [(path, line, text) for path, line, text in said]


def _order(told: list[Any], texts: list[tuple[str, str]]) -> bytes:
    """A line that says what is searched for and how long each text is, and the texts."""
    written = [(path, text.encode("utf-8", "surrogatepass")) for path, text in texts]
    sizes = [(path, len(data)) for path, data in written]
    return b"".join([json.dumps([*told, sizes]).encode(), b"\n", *(data for _, data in written)])
