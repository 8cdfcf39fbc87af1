"""Values that are known to be secret, and texts and values without them."""

from __future__ import annotations

import base64
import html
import json
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from replan.core.secrets.masked import MASK, Masked
from replan.core.secrets.names import is_reference
from replan.core.secrets.schemas import secrets_in
from replan.core.types import Frozen, JsonObject, ToolSpec

E = TypeVar("E", bound=Frozen)

SHORT, LONG = 4, 8
"""A value is hidden anywhere in a text from LONG characters on, as a word of its own from SHORT, else beside its name."""
_COMMON = frozenset(
    ["true", "false", "null", "none", "undefined", "yes", "no", "on", "off", "empty", "dummy", "test", "ollama",
     "local", "default", "password", "secret", "token", "basic", "bearer"]
)  # fmt: skip
"""Values of no secrecy that stand where a secret would: hidden beside their names only."""
_SIGNIFICANT_BASE64 = 10


def _spellings(value: str) -> Iterator[str]:
    """The value as texts write it: as it is, quoted, escaped, in an address, in base64."""
    yield value
    yield value.strip()
    yield " ".join(value.split())
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
        yield escaped.replace("/", "\\/")  # as PHP writes JSON
    yield repr(value)[1:-1]
    raw = value.encode("utf-8", "surrogatepass")
    yield repr(raw)[2:-1]
    yield raw.hex()
    yield raw.hex().upper()
    yield html.escape(value)
    for quoted in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
        yield quote(quoted, safe="")  # an address inside of another one


def _base64_cores(value: str) -> Iterator[str]:
    """The part of any base64 text around the value that the value alone decides."""
    # HTTP's basic authentication is written in latin-1 by many clients
    for raw in {value.encode("utf-8", "surrogatepass"), value.encode("latin-1", "replace")}:
        for before in range(3):
            text = base64.b64encode(b"\0" * before + raw).decode()
            core = text[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
            if len(core) >= _SIGNIFICANT_BASE64:
                yield core
                yield core.replace("+", "-").replace("/", "_")


class KnownSecrets:
    """Values that are known to be secret, and texts and values without them.

    What those `above` know is known here as well, also what they come to know later: the keys of models and sources
    to every task. Nothing known costs nothing; else a text is read once, whatever the number of secrets.
    """

    __slots__ = (
        "__weakref__",
        "_above",
        "_any",
        "_below",
        "_count",
        "_longest",
        "_met",
        "_named",
        "_pattern",
        "_read_at",
        "_texts",
        "_values",
    )

    def __init__(self, *above: KnownSecrets) -> None:
        self._above: list[KnownSecrets] = []
        self._below: weakref.WeakSet[KnownSecrets] | None = None
        """Those that this one is above of."""
        self._any = False
        self._values: dict[str, set[str]] = {}
        """Each with the names that it was seen under."""
        self._count = 0
        self._met = False
        self._longest = 0
        self._read_at = -1
        self._pattern: re.Pattern[str] | None = None
        self._named: re.Pattern[str] | None = None
        self._texts: dict[str, frozenset[str]] = {}
        for other in above:
            self.also(other)

    def __bool__(self) -> bool:
        return self._any  # asked for every event, and often

    def also(self, other: KnownSecrets) -> None:
        """Know what another one knows, now and later."""
        if other is self or other in self._above:
            return
        self._above.append(other)
        if other._below is None:
            other._below = weakref.WeakSet()
        other._below.add(self)
        if other:
            self._know()

    def _know(self) -> None:
        """There is something to hide now, here and below."""
        if not self._any:
            self._any = True
            for other in self._below or ():
                other._know()

    def add(self, value: Any, name: str = "") -> None:
        """Take a value for a secret. What is empty, a truth value, or a mask is none."""
        if value is None or isinstance(value, bool | Masked):
            return
        text = str(value)
        if not text.strip() or MASK in text:
            return
        names = self._values.get(text)
        if names is None:
            names = self._values[text] = set()
            self._count += 1
            self._know()
        if name and name not in names and len(names) < 20:
            names.add(name)
            self._count += 1

    def add_all(self, found: Iterable[tuple[str, Any]]) -> None:
        for name, value in found:
            self.add(value, name)

    def learn(self, tool: ToolSpec, parameters: JsonObject) -> None:
        """Know the secrets among the parameters of a call."""
        for name, value in secrets_in(tool, parameters):
            if not is_reference(value):
                self.add(value, name)

    def _version(self) -> int:
        return self._count + sum(each._version() for each in self._above)

    def _all(self) -> dict[str, set[str]]:
        found = {value: set(names) for value, names in self._values.items()}
        for each in self._above:
            for value, names in each._all().items():
                found.setdefault(value, set()).update(names)
        return found

    def _ready(self) -> bool:
        """True if anything is known; then the patterns are those of everything that is."""
        if not self:
            return False
        version = self._version()
        if version == self._read_at:
            return True
        anywhere, words, beside = set[str](), set[str](), list[str]()
        known = self._all()
        for value, names in known.items():
            if len(value) < SHORT or value.casefold() in _COMMON:
                beside += [rf"\b{re.escape(name)}[\"']?\s?[:=]\s?[\"']?{re.escape(value)}" for name in names]
                continue
            spelt = {text for text in _spellings(value) if len(text) >= SHORT}
            (anywhere if len(value) >= LONG else words).update(spelt)
            if len(value) >= LONG:
                anywhere.update(_base64_cores(value))
        either = [re.escape(text) for text in sorted(anywhere, key=len, reverse=True)]
        if words:
            longest = "|".join(re.escape(text) for text in sorted(words, key=len, reverse=True))
            either.append(rf"(?<![0-9A-Za-z])(?:{longest})(?![0-9A-Za-z])")
        self._pattern = re.compile("|".join(either)) if either else None
        self._named = re.compile(rf"({'|'.join(beside)})(?![0-9A-Za-z])", re.IGNORECASE) if beside else None
        self._longest = max(map(len, [*anywhere, *words, *beside]), default=0)
        self._texts = {value: frozenset(names) for value, names in known.items()}
        self._read_at = version
        return True

    def hide(self, text: str) -> str:
        """The text without any secret that it quotes."""
        return self._hidden(text) if self._ready() else text

    def _hidden(self, text: str) -> str:
        if self._pattern is not None:
            text = _replaced(self._pattern, lambda found: MASK, text, self._longest)
        if self._named is not None:
            text = _replaced(self._named, _value_masked, text, self._longest)
        return text

    def reach(self) -> int:
        """How many signs have to follow one to tell whether a secret begins there; 0 if nothing is known."""
        return self._longest + 1 if self._ready() else 0

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """Where secrets are in a text, in order, and what is shown instead."""
        if not self._ready():
            return []
        found = [(*one.span(), MASK) for one in self._pattern.finditer(text)] if self._pattern else []
        if self._named is not None:
            found += [(*one.span(), _value_masked(one)) for one in self._named.finditer(text)]
        apart: list[tuple[int, int, str]] = []
        for start, end, shown in sorted(found):
            if not apart or start >= apart[-1][1]:
                apart.append((start, end, shown))
        return apart

    def masked(self, value: Any) -> Any:
        """The value without any secret, with `Masked` in the places; the same object where there is none."""
        return self._masked(value, "") if self._ready() else value

    def _masked(self, value: Any, name: str) -> Any:
        if isinstance(value, str):
            return self._masked_text(value, name)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._made(MASK, value) if self._texts and self._is_secret(str(value), name) else value
        if isinstance(value, dict):
            made = {self._key(key): self._masked(item, key) for key, item in value.items()}
            same = len(made) == len(value) and all(made.get(key, made) is item for key, item in value.items())
            return value if same else made
        if isinstance(value, list | tuple):
            items = [self._masked(item, name) for item in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, Frozen):
            cleared: frozenset[str] = getattr(value, "sealed", _NO_FIELDS)
            changed = {
                field: new
                for field, old in value.__dict__.items()
                if field not in _STRUCTURE
                and field not in cleared
                and (new := self._masked(old, field)) is not old
            }
            return value.model_copy(update=changed) if changed else value
        return value

    def _masked_text(self, text: str, name: str) -> str:
        if isinstance(text, Masked):
            self._met = True
            return text
        if self._is_secret(text, name):
            return self._made(MASK, text)
        shown = self._hidden(text)
        return text if shown == text else self._made(shown, text)

    def _made(self, shown: str, real: Any) -> Masked:
        self._met = True
        return Masked.of(shown, real)

    def _is_secret(self, text: str, name: str) -> bool:
        """True if the whole value is a known secret: a short or common one under its name only."""
        names = self._texts.get(text)
        if names is None:
            return False
        return name in names or (len(text) >= SHORT and text.casefold() not in _COMMON)

    def _key(self, key: Any) -> Any:
        return self.hide(key) if isinstance(key, str) else key

    def masked_event(self, event: E, *, lost: bool = False) -> E:
        """The event as it is recorded; one that had to be changed says so.

        `lost`: it may hold what an earlier process has masked, whatever is known here.
        """
        if not self._ready() and not lost:
            return event
        self._met = False
        made: E = self._masked(event, "")
        if not self._met or made.__dict__.get("masked"):
            return made
        return made.model_copy(update={"masked": True})


def _replaced(
    pattern: re.Pattern[str], with_: Callable[[re.Match[str]], str], text: str, longest: int
) -> str:
    """The text with every match replaced; read piece by piece, so that a thread that does it lets others run."""
    if len(text) <= _PIECE:
        return pattern.sub(with_, text)
    parts: list[str] = []
    at = written = 0
    while at < len(text):
        found = pattern.search(text, at, min(len(text), at + _PIECE + longest + 1))
        if found is None or found.start() >= at + _PIECE:
            at += _PIECE
            continue
        parts += (text[written : found.start()], with_(found))
        at = written = max(found.end(), found.start() + 1)
    return text if not parts else "".join([*parts, text[written:]])


_PIECE = 16_384


def _value_masked(found: re.Match[str]) -> str:
    text = found[0]
    at = max(text.rfind(sign) for sign in ":=")
    lead = re.match(r"[:=]\s?[\"']?", text[at:])
    return text[: at + (lead.end() if lead else 1)] + MASK


_NO_FIELDS: frozenset[str] = frozenset()
_STRUCTURE = frozenset(
    [
        "action_id",
        "approval_id",
        "artifact_id",
        "base",
        "because",
        "by",
        "call_id",
        "call_key",
        "category",
        "dependencies",
        "effect",
        "evaluation_id",
        "happened",
        "kind",
        "masked",
        "mode",
        "plan_id",
        "plan_version",
        "policy",
        "problem_nature",
        "prompt",
        "prompt_hash",
        "question_id",
        "reflection_id",
        "role",
        "schema_name",
        "signature",
        "status",
        "step_id",
        "strategy_type",
        "task_id",
        "tool",
        "tool_id",
        "type",
        "version",
    ]
)
"""Fields of events that the log is read by: ids and words of ours, never what a user or a tool gave as a value."""


class _Nothing(KnownSecrets):
    """Nobody adds to it: many share it."""

    def add(self, value: Any, name: str = "") -> None:
        pass


NOTHING_SECRET = _Nothing()
"""For readers of logs."""
