"""Calls to a model, recorded to a file and replayed from it, keyed by the request.

The file is JSON Lines: a header `{"replan_recording": 1, "name", "style"}`, then one line a call with the key,
the request and the reply (or the error). It holds what was asked and answered, and no keys or addresses.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from replan.core.ids import canonical, digest
from replan.core.limits.budget import COUNTED
from replan.core.limits.prices import FREE, Price
from replan.core.types import JsonObject
from replan.errors import InputError, ModelUnavailable, RecordingError
from replan.files import MOST_BYTES, read_bounded
from replan.ports import Model, ModelReply, ModelRequest, Priced

_FORMAT = 1
_MOST_BYTES = 2**30
"""Of a recording."""
_DATE = re.compile(r"Today is \d{4}-\d{2}-\d{2}(?:, a [A-Z][a-z]+day)?\.")
"""The prompts tell the date; a recording has to serve on later days too."""
_SECONDS = re.compile(
    r"(Left of the budget: (?:[^\\\n]*?, )?)[\d.e+]+ of [\d.e+]+(?= seconds)"
    r"|(Counted: [^\\\n]*?; seconds: )\d+"
)
"""The prompts of a recovery tell how much time is used and left; a replay is faster than the model was."""
_LEFT = re.compile(r"(?<=Left of the budget: )[^\\\n\"]*")
_BESIDE = "|".join(re.escape(one.words) for one in COUNTED if one.asked_before in ("llm", "tool"))
_AMOUNT = re.compile(rf"(?<![\d.e+-])[\d.e+-]++ of ([\d.e+-]++)(?= (?:{_BESIDE})\b)")
"""What is left of what calls use depends on what steps beside the failed one have used by then."""
_ENDED = re.compile(r", ended \d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC(?=\\n|\n)")
"""The prompts tell when earlier tasks have ended: those of a recording may have been run anew since."""
_CUT = "was cut off in its last line, by a crash or a full disk"
log = logging.getLogger("replan")
_PIECE = 24
"""Characters of a replayed piece, as a model would stream them."""


def request_of(request: ModelRequest) -> JsonObject:
    """What makes two requests the same: all but limits."""
    return {
        "role": request.role,
        "schema_name": request.schema_name,
        "temperature": request.temperature,
        "instructions": request.instructions,
        "turns": [turn.model_dump() for turn in request.turns],
        "json_schema": request.json_schema,
    }


def request_key(request: ModelRequest) -> str:
    """The key under which the answers to a request are kept: the same on every day, however fast the run is."""
    told = _DATE.sub("Today is any day.", canonical(request_of(request)))
    told = _ENDED.sub(", ended any day", told)
    told = _LEFT.sub(lambda found: _AMOUNT.sub(r"any of \1", found[0]), told)
    return digest(_SECONDS.sub(lambda found: f"{found[1] or found[2]}any", told))


def _previous_key(task: str) -> str:
    return digest(canonical({"previous": task}))


class RecordingModel:
    """A model whose calls are written to a file as they end, each line whole or not at all.

    An existing recording is gone on with; a line that was cut off by a crash is removed from it first.
    Several models may record into one file.
    """

    def __init__(self, model: Model, path: Path | str) -> None:
        self._model = model
        self.name = model.name
        self.style: Literal["standard", "small"] = model.style
        self._path = Path(path).absolute()
        self._lock = threading.Lock()
        self._file = _open_to_append(self._path)

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        try:
            reply = await self._model.ask(request, on_text)
        except ModelUnavailable as error:
            said = str(error) if request.hide is None else request.hide(str(error))
            kind = {"message": said, "transient": error.transient, "setup": error.exit_code == 2}
            self._write(request, {"error": kind})
            raise
        self.name = self._model.name
        kept = reply if request.hide is None else _hidden(reply, request.hide)
        try:
            self._write(request, {"reply": kept.model_dump(mode="json")})
        except RecordingError:
            if request.watcher is not None:
                request.watcher.used(reply.usage)  # it was answered, and is to be paid for
            raise
        return reply

    def keep_previous(self, task: str, read: JsonObject) -> None:
        """What a task of these words has read of earlier ones."""
        self._put_line({"key": _previous_key(task), "previous": read})

    def price(self) -> Price | None:
        """What the model says; one that is not asked for it bears the cost that it reports."""
        return self._model.price() if isinstance(self._model, Priced) else FREE

    async def aclose(self) -> None:
        try:
            await self._model.aclose()
        finally:
            with self._lock:
                if self._file >= 0:
                    os.close(self._file)
                    self._file = -1

    def _write(self, request: ModelRequest, outcome: JsonObject) -> None:
        self._put_line({"key": request_key(request), "request": request_of(request), **outcome})

    def _put_line(self, line: JsonObject) -> None:
        with self._lock:
            if self._file < 0:
                self._file = _open_to_append(self._path)
            try:
                if os.fstat(self._file).st_size == 0:
                    _put(self._file, {"replan_recording": _FORMAT, "name": self.name, "style": self.style})
                _put(self._file, line)
            except OSError as error:
                why = error.strerror or str(error)
                raise RecordingError(
                    f"the recording {self._path} cannot be written: {why}; what the model has said last is not kept: make room, or "
                    "record to another file"
                ) from error


def _hidden(reply: ModelReply, hide: Callable[[str], str]) -> ModelReply:
    """Without secrets, wherever an endpoint has put them: also in the name that it gives itself."""
    texts = {name: hide(value) for name, value in reply if isinstance(value, str)}
    return reply.model_copy(update=texts)


class ReplayModel:
    """Answers from a recording, byte for byte; several answers to one request come in the order of recording.

    A request that was not recorded, or that has no answer left, is a `ModelUnavailable` that names the nearest
    recorded one and what differs. An unreadable file is an `InputError`.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path).absolute()
        header, lines, self._cut = _read(self._path)
        self._calls = [one for one in lines if "previous" not in one]
        self._previous: dict[str, list[JsonObject]] = {}
        for line in lines:
            if "previous" in line:
                self._previous.setdefault(line["key"], []).append(line["previous"])
        if self._cut:
            log.warning("%s %s: what it holds before that is replayed", self._path, _CUT)
        self.name = str(header.get("name", "replay"))
        self.style: Literal["standard", "small"] = "small" if header.get("style") == "small" else "standard"
        self._answers: dict[str, list[JsonObject]] = {}
        for call in self._calls:
            self._answers.setdefault(call["key"], []).append(call)
        self._given: dict[str, int] = {}

    def previous_read(self, task: str) -> JsonObject | None:
        left = self._previous.get(_previous_key(task))
        return left.pop(0) if left else None

    def knows_previous(self, task: str) -> bool:
        return bool(self._previous.get(_previous_key(task)))

    @property
    def left(self) -> int:
        """How many recorded calls have not been replayed."""
        return len(self._calls) - sum(self._given.values())

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        key = request_key(request)
        answers = self._answers.get(key, [])
        position = self._given.get(key, 0)
        if position >= len(answers):
            raise ModelUnavailable(self._missing(request, len(answers)), setup=True)
        self._given[key] = position + 1
        call = answers[position]
        if error := call.get("error"):
            raise ModelUnavailable(error["message"], transient=error["transient"], setup=error["setup"])
        reply = ModelReply.model_validate(call["reply"])
        if on_text is not None:
            for start in range(0, len(reply.text), _PIECE):
                on_text(reply.text[start : start + _PIECE])
        return reply

    async def aclose(self) -> None:
        return None

    def _missing(self, request: ModelRequest, recorded: int) -> str:
        told = self._what_is_missing(request, recorded)
        return f"{told}; the recording {_CUT}" if self._cut else told

    def _what_is_missing(self, request: ModelRequest, recorded: int) -> str:
        what = f"{request.schema_name!r} of the role {request.role!r}"
        if recorded:
            times = "once" if recorded == 1 else f"{recorded} times"
            return f"{self._path} has the request for {what} {times}, and it was asked once more"
        wanted = request_of(request)
        alike = [c["request"] for c in self._calls if c["request"].get("schema_name") == request.schema_name]
        if not alike:
            names = sorted({c["request"].get("schema_name", "?") for c in self._calls})
            return f"{self._path} has no request for {what}; it has: {', '.join(names) or 'none'}"
        nearest = max(alike, key=lambda known: _likeness(known, wanted))
        return f"{self._path} has no such request for {what}; the nearest recorded one differs in {_difference(nearest, wanted)}"


def _open_to_append(path: Path) -> int:
    try:
        return _opened_to_append(path)
    except OSError as error:
        raise InputError(f"the recording {path} cannot be written: {error.strerror or error}") from error


def _opened_to_append(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as file:
            data = file.read()
            whole = data.rfind(b"\n") + 1
            first = data[:whole].split(b"\n", 1)[0]
            if whole and not _is_header(first):
                raise InputError(f"{path} is not a recording of Replan: choose another file to record to")
            if not whole and not data.startswith(b'{"replan_recording"'):
                raise InputError(f"{path} is not a recording of Replan: choose another file to record to")
            file.truncate(whole)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)


def _put(file: int, line: JsonObject) -> None:
    """Write a line, or nothing of it: what a full disk has taken of it is cut off again."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    data = memoryview(text.encode("utf-8", "surrogatepass") + b"\n")
    before, written = os.fstat(file).st_size, 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError:
        with contextlib.suppress(OSError):
            if written and os.fstat(file).st_size == before + written:  # nobody else has written behind it
                os.ftruncate(file, before)
        raise


def _is_header(line: bytes) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("replan_recording") == _FORMAT


def _read(path: Path) -> tuple[JsonObject, list[JsonObject], bool]:
    """The header, the calls, and whether the last line was cut off."""
    try:
        with path.open("rb") as file:
            known = _is_header(file.readline(MOST_BYTES))
        lines = read_bounded(path, _MOST_BYTES).split(b"\n") if known else []
    except OSError as error:
        raise InputError(f"the recording {path} cannot be read: {error.strerror or error}") from error
    if not lines:
        raise InputError(
            f"{path} is not a recording of Replan, or one of another release (--record makes one)"
        )
    calls: list[JsonObject] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line or number == len(lines):  # what follows the last line's end was cut off
            continue
        try:
            call = json.loads(line)
            if not isinstance(call["key"], str) or call.keys().isdisjoint(("reply", "error", "previous")):
                raise ValueError("neither a reply nor an error")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"line {number} of the recording {path} cannot be read: {error}") from error
        calls.append(call)
    return json.loads(lines[0]), calls, bool(lines[-1])


def _text(request: JsonObject) -> str:
    return "\n".join(str(turn.get("text", "")) for turn in request.get("turns", ()))


def _likeness(known: JsonObject, wanted: JsonObject) -> float:
    same: int = sum(known.get(name) == value for name, value in wanted.items())
    return (
        same
        + difflib.SequenceMatcher(
            None, _text(known)[-4000:], _text(wanted)[-4000:], autojunk=False
        ).quick_ratio()
    )


def _difference(known: JsonObject, wanted: JsonObject) -> str:
    parts = []
    for name, value in wanted.items():
        before: Any = known.get(name)
        if before == value:
            continue
        old, new = (
            (_text(known), _text(wanted))
            if name == "turns"
            else (canonical_text(before), canonical_text(value))
        )
        parts.append(f"{name} ({_first_difference(old, new)})")
    return ", ".join(parts) or "nothing that can be shown"


def canonical_text(value: Any) -> str:
    """A text as it is, anything else as its canonical JSON."""
    return value if isinstance(value, str) else canonical(value)


def _first_difference(old: str, new: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, at - 20)
    return f"recorded …{old[start : at + 40]!r}, asked …{new[start : at + 40]!r}"
