"""What people type and the files they name, read into values; every mistake says what would be right."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from replan.core.words import beginning
from replan.errors import InputError
from replan.files import MOST_BYTES, Unusable, read_bounded, read_json


def metadata_of(pairs: list[str], texts: Collection[str] = ()) -> dict[str, Any]:
    """`KEY=VALUE` pairs as an object; a VALUE that is JSON is read as that, all else is text.

    `n=3` is a number, `id="3"` a text, `tags=["a","b"]` a list, `note=hello world` a text. `texts`: keys whose
    values are texts in any case; those of JSON's other kinds are taken as they are written.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InputError(f"{pair!r}: expected KEY=VALUE, like project_id=42")
        if key in found:
            raise InputError(f"{key} is given twice; give it once")
        value = value_of(text)
        found[key] = text if key in texts and not isinstance(value, str) else value
    return found


def secrets_of(pairs: list[str]) -> dict[str, str]:
    """`NAME=env:VAR` and `NAME=file:PATH` pairs: where secrets come from, never what they are."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, source = pair.partition("=")
        name, kind = name.strip(), source.partition(":")[0]
        if not equals or not name or kind not in ("env", "file"):
            shown = name[:40] if equals else "…"
            raise InputError(
                f"--secret {shown}: expected NAME=env:VARIABLE or NAME=file:PATH; a secret itself would stay in the "
                "history of the shell"
            )
        if name in found:
            raise InputError(f"--secret {name} is given twice; give it once")
        found[name] = source
    return found


def value_of(text: str) -> Any:
    """The JSON value that the text is, or else the text."""
    try:
        return read_json(text)
    except Unusable as error:
        raise InputError(
            f"{beginning(text, 40)}: {error}; write it in double quotes if it is meant as a text"
        ) from None
    except ValueError:
        return text


def json_value(text: str, what: str) -> Any:
    """The JSON value that an option gives; `what` names the option in messages."""
    try:
        return read_json(text)
    except ValueError as error:
        hint = "" if set(text) & set('{}[]"') else f"; a text is written in quotes: {what} '\"{text[:40]}\"'"
        raise InputError(f"{what} has to be JSON: {error}{hint}") from None


def json_object(text: str, what: str) -> dict[str, Any]:
    """The JSON object that an option gives."""
    value = json_value(text, what)
    if not isinstance(value, dict):
        raise InputError(f'{what} has to be a JSON object, as {{"city": "Rome"}}')
    return value


def json_file(path: Path, what: str) -> Any:
    """The JSON document in a file, `-` for stdin; `what` names it in messages."""
    name = "stdin" if str(path) == "-" else str(path)
    try:
        raw = sys.stdin.buffer.read(MOST_BYTES + 1) if name == "stdin" else read_bounded(path)
    except FileNotFoundError:
        raise InputError(f"there is no {what} file {name}") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder; name a JSON file with the {what}") from None
    except OSError as error:
        raise InputError(f"the {what} file {name} cannot be read: {error.strerror or error}") from None
    if len(raw) > MOST_BYTES:
        raise InputError(f"{name}: the {what} file is larger than {MOST_BYTES:,} bytes")
    try:
        return read_json(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: the {what} file is not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        raise InputError(f"{name}:{error.lineno}:{error.colno}: not valid JSON: {message}") from None
    except ValueError as error:
        raise InputError(f"{name}: the {what} cannot be used: {error}") from None


def plan_file(path: Path) -> dict[str, Any]:
    """A plan as an object; a bare list is taken as its steps."""
    value = json_file(path, "plan")
    if isinstance(value, list):
        return {"steps": value}
    if not isinstance(value, dict):
        raise InputError(f'{path}: a plan is an object like {{"steps": [...]}}; found {type(value).__name__}')
    return value


def task_text(text: str | None, plan: dict[str, Any] | None, plan_path: Path | None) -> str:
    """The task's words: as given, from stdin for `-`, or from the plan that is to be run."""
    if text == "-":
        text = sys.stdin.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise InputError(f"the task on stdin is longer than {MOST_BYTES:,} characters")
    if text is None and plan is not None:
        text = str(plan.get("task_description") or f"Run the plan {plan_path}")
    if text is None:
        raise InputError('say what is to be done: replan run "…" (or give a plan with --plan FILE)')
    if not text.strip():
        raise InputError("the task is empty: say what is to be done in a sentence")
    return text


def one_text(words: list[str] | None) -> str | None:
    """The task's words, which are one argument; `InputError` shows how to quote several."""
    if not words:
        return None
    if len(words) > 1:
        from shlex import quote

        raise InputError(f"put the task in quotes: replan run {quote(' '.join(words))} …")
    return words[0]


def secret_text(given: str) -> str:
    """The secret that `--api-key` gives: `env:VARIABLE`, `file:PATH`, or the text itself. A line end is cut."""
    from replan.run.session.given import read_source

    found = read_source(given, "--api-key")
    return (given if found is None else found).rstrip("\r\n")


def recording_file(path: Path) -> None:
    """`InputError` where a recording cannot be written: said before a model is asked, and paid."""
    if path.is_dir():
        raise InputError(f"--record {path} is a folder; name a file in it, like {path / 'run.jsonl'}")
    if not path.parent.is_dir():
        raise InputError(f"--record {path}: there is no folder {path.parent}")
