"""Whether a planned call puts a secret of the metadata where the tool does not say that it takes one.

A reference is followed twice, through the metadata as they are and through the same without their secrets. Where that
makes a difference it carries a secret, whatever its path does with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from replan.core.references.meter import Meter, opened
from replan.core.references.paths import PathError, select
from replan.core.references.refs import Reference, is_plain, listed, parse, references, whole
from replan.core.references.trees import unfiltered
from replan.core.secrets import MASK, Receiver, reveal_known, secret_places, with_places
from replan.core.types import JsonObject, ToolSpec


class SecretMetadata(NamedTuple):
    """Metadata that hold secrets."""

    real: Mapping[str, Any]
    shown: Mapping[str, Any]
    """The same without the secrets."""
    named: Mapping[str, tuple[Any, ...]]
    """The secrets, and what holds some, by the names that they stand under."""

    def within(self, current: JsonObject, submitted: JsonObject) -> SecretMetadata:
        """The same where steps have added to the metadata: what they gave is no secret of whoever gave the task."""
        mine = {name for name, value in submitted.items() if current.get(name) is value}
        if len(mine) == len(current):
            return self
        real = {name: self.real[name] if name in mine else reveal_known(current[name]) for name in current}
        return SecretMetadata(real, {**real, **{name: self.shown[name] for name in mine}}, self.named)


def secret_metadata(metadata: JsonObject, names: Collection[str]) -> SecretMetadata | None:
    """What of a request's metadata is secret, by the names and places that are known to be; None if nothing is."""
    real = reveal_known(metadata)
    places = list(secret_places(real, names))
    if not places:
        return None
    named: dict[str, tuple[Any, ...]] = {}
    for path, value in places:
        name = next((part for part in reversed(path) if not part.isdigit()), "")
        named[name] = (*named.get(name, ()), value)
        named[path[0]] = (*named.get(path[0], ()), real[path[0]])
    return SecretMetadata(real, with_places(real, {".".join(path): MASK for path, _ in places}), named)


def strays(
    tool: ToolSpec,
    parameters: JsonObject,
    for_each: str | None,
    metadata: SecretMetadata,
    *,
    at: int | None = None,
    skip: Collection[str] = (),
) -> list[str]:
    """Where the call would put a secret of the metadata though the parameter is not declared for one, in words.

    `at`: the item that the call is for; None: any of them. `skip`: references of which nothing is known yet.
    """
    heads = {ref.head for ref in references(parameters)}
    if not heads & {"metadata", "item"}:
        return []
    search = _Search(tool, metadata, skip)
    if "item" in heads and for_each is not None:
        search.items = search.items_of(for_each, at)
    return list(dict.fromkeys(search.of(parameters)))


_NOTHING: Any = object()
_Pair = tuple[Any, Any]
"""A value with the secrets that are in it, and without."""


class _Search:
    def __init__(self, tool: ToolSpec, metadata: SecretMetadata, skip: Collection[str]) -> None:
        self._tool = tool
        self._metadata = metadata
        self._skip = skip
        self._meter = Meter()
        self.items: list[_Pair] = []

    def of(self, parameters: JsonObject) -> Iterator[str]:
        receiver = Receiver.of(self._tool)
        for name, value in parameters.items():
            yield from self._written((name,), value, receiver.field(name))

    def _written(self, path: tuple[str, ...], value: Any, receiver: Receiver) -> Iterator[str]:
        if receiver.takes:
            return
        if isinstance(value, str):
            if not is_plain(value):
                yield from self._text(path, value, receiver, alone=whole(value) is not None)
        elif isinstance(value, dict):
            for key, item in value.items():
                if not is_plain(key) and not receiver.takes_names:
                    yield from self._text(path, key, receiver, alone=False)
                yield from self._written((*path, key), item, receiver.field(key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._written((*path, str(index)), item, receiver.item(index))

    def _text(self, path: tuple[str, ...], text: str, receiver: Receiver, *, alone: bool) -> Iterator[str]:
        for part in parse(text):
            if isinstance(part, str):
                continue
            for ref in references(part.raw):
                for real, shown in self._values(ref):
                    places = self._apart(path, real, shown, receiver) if alone else [path] * (real != shown)
                    for place in places:
                        yield self._words(place, ref.raw)

    def _words(self, path: tuple[str, ...], raw: str) -> str:
        tool = self._tool.id
        return (
            f"tool {tool!r}: {'.'.join(path)} is not declared as secret, and {raw} would put a secret of the metadata "
            f'there; leave it out, or declare the parameter: [tools.rules."{tool}"] secrets = ["{path[0]}"]; where the task cannot be done without it, that is for whoever runs the task to declare: say so in `cannot`'
        )

    # ── what references carry ──

    def _values(self, ref: Reference) -> Iterator[_Pair]:
        """What the reference gives, for each item that it may be of; nothing where the metadata have no part in it."""
        if ref.problem or ref.raw in self._skip:
            return
        if ref.head == "metadata" and ref.path:  # the whole is given without its secrets
            yield self._selected(ref, self._metadata.real, self._metadata.shown)
        elif ref.head == "item":
            for real, shown in self.items:
                yield self._selected(ref, real, shown)

    def _selected(self, ref: Reference, real: Any, shown: Any) -> _Pair:
        if not ref.path:
            return real, shown
        path = unfiltered(ref.path) if ref.within else ref.path  # what is selected shows later: it may be all
        try:
            found = select(path, real, self._meter)
        except PathError:  # which is said better where it is filled in
            return (real, shown) if ref.within else (None, None)
        try:
            return found, select(path, shown, self._meter)
        except PathError:
            return found, _NOTHING

    def items_of(self, for_each: str, at: int | None) -> list[_Pair]:
        """The items that come from the metadata."""
        written = listed(for_each)
        if written is not None:
            return [self._pair(item) for item in (written if at is None else written[at : at + 1])]
        ref = whole(for_each)
        if ref is None or ref.head != "metadata":
            return []
        found: list[_Pair] = []
        for real, shown in self._values(ref):
            many, few = opened(real), opened(shown)
            if isinstance(many, list):
                same = isinstance(few, list) and len(few) == len(many)
                found = list(zip(many, few if same else [_NOTHING] * len(many), strict=True))
        return found if at is None else found[at : at + 1]

    def _pair(self, value: Any) -> _Pair:
        """A written item with what it carries; what comes from elsewhere stays as it is written."""
        if isinstance(value, str) and not is_plain(value):
            if (ref := whole(value)) is not None:
                return next(self._values(ref), (value, value))
            carries = any(real != shown for ref in references(value) for real, shown in self._values(ref))
            return value, _NOTHING if carries else value
        if isinstance(value, dict):
            if any(real != shown for real, shown in map(self._pair, value)):
                return value, _NOTHING
            pairs = {key: self._pair(item) for key, item in value.items()}
            return {key: one[0] for key, one in pairs.items()}, {key: one[1] for key, one in pairs.items()}
        if isinstance(value, list):
            items = [self._pair(item) for item in value]
            return [one[0] for one in items], [one[1] for one in items]
        return value, value

    def _apart(
        self, path: tuple[str, ...], real: Any, shown: Any, receiver: Receiver
    ) -> Iterator[tuple[str, ...]]:
        """The places where two values differ and no secret is expected."""
        if receiver.takes or real is shown or real in self._metadata.named.get(receiver.name, ()):
            return
        if isinstance(real, dict) and isinstance(shown, dict) and real.keys() == shown.keys():
            for key, item in real.items():
                yield from self._apart((*path, key), item, shown[key], receiver.field(key))
        elif isinstance(real, list) and isinstance(shown, list) and len(real) == len(shown):
            for index, item in enumerate(real):
                yield from self._apart((*path, str(index)), item, shown[index], receiver.item(index))
        elif real != shown:
            yield path
