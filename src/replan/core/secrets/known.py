"""Values that are known to be secret, and texts and values without them."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable
from operator import is_
from typing import Any, TypeVar

from replan.core.masked import MASK, Masked, is_mask
from replan.core.secrets.names import is_reference
from replan.core.secrets.schemas import secrets_in
from replan.core.secrets.spellings import Place, Spellings, is_plain_word, may_stand_in, places_in
from replan.core.secrets.written_in import written_in
from replan.core.types import Frozen, JsonObject, ToolSpec

E = TypeVar("E", bound=Frozen)


class KnownSecrets:
    """Values that are known to be secret, and texts and values without them.

    Threads may read while others add.

    What those `above` know is known here as well, also what they come to know later: the keys of models and sources
    to every task. Nothing known costs nothing.
    """

    __slots__ = (
        "__weakref__",
        "_above",
        "_below",
        "_chain",
        "_chained_at",
        "_spelt",
        "_values",
        "any",
    )

    def __init__(self, *above: KnownSecrets) -> None:
        self._above: tuple[KnownSecrets, ...] = ()
        self._below: weakref.WeakSet[KnownSecrets] | None = None
        """Those that this one is above of."""
        self.any = False
        """Something is known to be secret: asked for every event, and often."""
        self._values = _NO_VALUES
        """Each with the names that it was seen under."""
        self._spelt = _NO_SPELLINGS
        """Of its own values."""
        self._chain: tuple[KnownSecrets, ...] = ()
        """Itself and all above it."""
        self._chained_at: object = None
        for other in above:
            self.also(other)

    def __bool__(self) -> bool:
        return self.any

    def adds_to(self, others: Collection[KnownSecrets]) -> bool:
        """True if it may know anything that none of `others` does: of its own, or from one above that is not among them."""
        return self.any and (bool(self._values) or any(each not in others for each in self._above))

    def also(self, other: KnownSecrets) -> None:
        """Know what another one knows, now and later."""
        if other is self or other in self._above:
            return
        self._above = (*self._above, other)
        if other._below is None:
            other._below = weakref.WeakSet()
        other._below.add(self)
        _links[0] = object()
        if other:
            self._know()

    def _know(self) -> None:
        """There is something to hide now, here and below."""
        if not self.any:
            self.any = True
            for other in list(self._below or ()):
                other._know()

    def add(self, value: Any, name: str = "") -> None:
        """Take a value for a secret. What is empty, a truth value, or a mask is none (`Hunter***2` is no mask)."""
        if value is None or isinstance(value, bool | Masked):
            return
        text = str(value)
        if not text.strip() or is_mask(text):
            return
        names = self._values.get(text)
        if names is None:
            self._begin()
            names = self._values[text] = set()
            self._spelt.add(text)
            self._know()
            for key, part in written_in(text):
                self.add(part, key or name)
        if name and name not in names and len(names) < 20:
            names.add(name)
            self._spelt.name(name, text)

    def _begin(self) -> None:
        """Have values of its own: until then it shares those of all that know nothing."""
        if self._values is _NO_VALUES:
            self._spelt = Spellings()  # first: whoever looks meanwhile finds both or none
            self._values = {}

    def add_all(self, found: Iterable[tuple[str, Any]]) -> None:
        for name, value in found:
            self.add(value, name)

    def learn(self, tool: ToolSpec, parameters: JsonObject) -> None:
        """Know the secrets among the parameters of a call."""
        for name, value in secrets_in(tool, parameters):
            if not is_reference(value):
                self.add(value, name)

    def _all(self) -> tuple[KnownSecrets, ...]:
        if self._chained_at is not (at := _links[0]):
            chain = dict.fromkeys([self, *(each for above in self._above for each in above._all())])
            self._chain, self._chained_at = tuple(chain), at
        return self._chain

    def hide(self, text: str) -> str:
        """The text without any secret that it quotes."""
        return self._hidden(text) if self.any else text

    def _hidden(self, text: str) -> str:
        parts: list[str] = []
        at = 0
        for place in self.places(text):
            parts += (text[at : place.masked_from], MASK)
            at = place.end
        return "".join([*parts, text[at:]]) if parts else text

    def reach(self) -> int:
        """How many signs have to follow one to tell whether a secret begins there; 0 if nothing is known."""
        return max(each._spelt.longest for each in self._all()) + 1 if self.any else 0

    def places(self, text: str, begin: int = 0) -> list[Place]:
        """Where secrets are in a text from `begin` on, in order."""
        return (
            places_in([each._spelt for each in self._all() if each._values], text, begin) if self.any else []
        )

    def may_stand_in(self, data: bytes) -> bool:
        """False if surely none is in these bytes, text or not."""
        return self.any and may_stand_in([each._spelt for each in self._all() if each._values], data)

    def masked(self, value: Any) -> Any:
        """The value without any secret, with `Masked` in the places; the same object where there is none."""
        return self._masked(value, "", []) if self.any else value

    def _masked(self, value: Any, name: str, met: list[str]) -> Any:
        """The same; what is masked in it is added to `met`."""
        if isinstance(value, str):
            return self._masked_text(value, name, met)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            whole = isinstance(value, float) and value.is_integer()
            secret = self._is_secret(str(value), name) or (whole and self._is_secret(str(int(value)), name))
            return _made(MASK, value, met) if secret else value
        if isinstance(value, dict):
            names = [self._key(key, met) for key in value]
            if len(set(names)) < len(names):  # secret names that look alike now
                names = [
                    name if name is key else _made(f"{name} ({at})", key, met)
                    for at, (name, key) in enumerate(zip(names, value, strict=True), 1)
                ]
            made = {
                name: self._masked(item, key, met)
                for name, (key, item) in zip(names, value.items(), strict=True)
            }
            same = all(map(is_, made, value)) and all(map(is_, made.values(), value.values()))
            return value if same else made
        if isinstance(value, list | tuple):
            items = [self._masked(item, name, met) for item in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, Frozen):
            cleared: frozenset[str] = getattr(value, "sealed", _NO_FIELDS)
            changed = {
                field: new
                for field, old in value.__dict__.items()
                if (field not in _STRUCTURE or (field == "by" and is_said(value)))
                and field not in cleared
                and (new := self._masked(old, field, met)) is not old
            }
            return value.model_copy(update=changed) if changed else value
        return value

    def _masked_text(self, text: str, name: str, met: list[str]) -> str:
        if isinstance(text, Masked):
            met.append(text)
            return text
        if self._is_secret(text, name):
            return _made(MASK, text, met)
        shown = self._hidden(text)
        return text if shown == text else _made(shown, text, met)

    def _is_secret(self, text: str, name: str) -> bool:
        """True if the whole value is a known secret: a short or common one under its name only."""
        for each in self._all():
            names = each._values.get(text)
            if names is not None and (name in names or not is_plain_word(text)):
                return True
        return False

    def _key(self, key: Any, met: list[str]) -> Any:
        if isinstance(key, Masked):
            met.append(key)
            return key
        if not isinstance(key, str) or (shown := self._hidden(key)) == key:
            return key
        return _made(shown, key, met)

    def masked_event(self, event: E, *, lost: bool = False) -> E:
        """The event as it is recorded; one that had to be changed says so.

        `lost`: it may hold what an earlier process has masked, whatever is known here.
        """
        if not self.any and not lost:
            return event
        met: list[str] = []
        made: E = self._masked(event, "", met)
        if not met or made.__dict__.get("masked"):
            return made
        return made.model_copy(update={"masked": True})

    def masked_stored(self, event: E) -> E:
        """A stored event without what is known by now: also where it was cleared when it came, of what was known then."""
        made = self.masked_event(event)
        names: frozenset[str] = getattr(event, "sealed", _NO_FIELDS)
        old = {name: made.__dict__[name] for name in names}
        changed = {name: new for name in old if (new := self.masked(old[name])) is not old[name]}
        return made.model_copy(update={**changed, "masked": True}) if changed else made


def is_said(event: Frozen) -> bool:
    """True if it is what a person, or a caller outside, has said: its `by` is their word, and none of ours."""
    return getattr(event, "signal", False) or getattr(event, "type", "") == "task_forked"


def _made(shown: str, real: Any, met: list[str]) -> Masked:
    made = Masked.of(shown, real)
    met.append(made)
    return made


_NO_VALUES: dict[str, set[str]] = {}
_NO_SPELLINGS = Spellings()
"""What is shared by all that know nothing of their own, as those of thousands of tasks; nothing is added to them."""
_links = [object()]
"""Another one each time that one is set above another."""
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
