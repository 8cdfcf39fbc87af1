"""How a run comes to know what is secret: from the request, from plans and answers of models, from calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from replan.core.data.read_json import Unreadable, candidates
from replan.core.events import AnyEvent, PreviousTasksRead, TaskSubmitted
from replan.core.following.told import Kept
from replan.core.references.kept import STREAMED, value_of
from replan.core.references.refs import references
from replan.core.secrets import (
    NOTHING_SECRET,
    KnownSecrets,
    Masked,
    SecretLost,
    is_mask,
    reveal,
    secret_names,
    secret_places,
    secrets_in,
    secrets_of_text,
    secrets_within,
    secrets_written_in,
    takes_secrets,
)
from replan.core.types import Artifact, Frozen, JsonObject, ToolSpec
from replan.ports import Tools
from replan.run.session.outputs import pack, read_now

Resolve = Callable[[str], ToolSpec | None]
_TOOL, _PARAMETERS = ("tool", "tool_id", "tool_name", "name"), ("parameters", "params", "arguments", "args")
_MOST_DEPTH = 40


def known_to(event: TaskSubmitted, tools: Tools, above: KnownSecrets) -> KnownSecrets:
    """What is secret of a request: by the names of its metadata, by what its tools declare, by where its plan puts it."""
    known = KnownSecrets(above)
    declared = _declared_by(tools)
    names = {*event.secrets, *declared.names}
    for value in declared.values:
        known.add(value)
    if event.plan is not None and may_hold_secrets(tools):
        plan = reveal_or_none(event.plan)
        names.update(_metadata_in_secrets(plan, tools.resolve))
        learn_values(known, plan, tools)
    for value in (event.metadata, event.context):
        for path, secret in secret_places(value, names):
            known.add(secret, next((part for part in reversed(path) if not part.isdigit()), ""))
            if isinstance(secret, str) and "://" in secret:
                known.add_all(secrets_of_text(secret))
            if isinstance(secret, str):
                known.add_all(secrets_within(secret))
    return known


def places_of(event: TaskSubmitted, tools: Tools) -> list[str]:
    """Where the metadata of a request hold secrets."""
    names = {*event.secrets, *_declared_by(tools).names}
    if event.plan is not None and may_hold_secrets(tools):
        names.update(_metadata_in_secrets(event.plan, tools.resolve))
    return [".".join(path) for path, _ in secret_places(event.metadata, names)]


def in_clear(event: TaskSubmitted, tools: Tools) -> KnownSecrets:
    """What a log holds in clear though it is secret by today's rules: one that an older release has written."""
    names = {*event.secrets, *_declared_by(tools).names}
    stored = (place for value in (event.metadata, event.context) for place in secret_places(value, names))
    if all(isinstance(secret, Masked) or is_mask(str(secret)) for _, secret in stored):
        return NOTHING_SECRET
    return known_to(event, tools, NOTHING_SECRET)


def may_hold_secrets(tools: Tools) -> bool:
    """True if an answer may have secrets of its own in it: there are parameters that take some."""
    return _declared_by(tools).taken


def learn_answer(known: KnownSecrets, text: str, tools: Tools, metadata: JsonObject) -> dict[str, Any]:
    """Know the secrets that a model's answer has in calls of tools, literally or as references to metadata.

    The places of metadata that nobody had known to be secret, with their values: what was stored and asked before has them.
    """
    if not may_hold_secrets(tools):
        return {}
    try:
        values = list(candidates(text))
    except Unreadable:
        return {}
    late: dict[str, Any] = {}
    for value in values:
        learn_values(known, value, tools)
        for name in _metadata_in_secrets(value, tools.resolve):
            for path, secret in secret_places({name: metadata.get(name)}, (name,)):
                if not isinstance(secret, Masked):
                    late[".".join(path)] = secret
                known.add(
                    reveal_or_none(secret), next((part for part in reversed(path) if not part.isdigit()), "")
                )
    return late


def learn_values(known: KnownSecrets, value: Any, tools: Tools) -> None:
    """Know what a plan, or a part of one, puts under names that are secret and into secret parameters."""
    names = _declared_by(tools).names
    own: dict[int, tuple[JsonObject, Collection[str]]] = {}
    """The parameters of each call, by identity, and those that its own tool knows: it says itself which are secret."""
    for tool, parameters in _calls(value, tools.resolve):
        known.learn(tool, parameters)
        own[id(parameters)] = (parameters, tool.parameters.get("properties") or ())
    for node in _objects(value):
        told = own[id(node)][1] if id(node) in own else ()
        for name in (names & node.keys()).difference(told):
            for _, secret in secret_places({name: _opened(node[name])}, (name,)):
                known.add(secret, name)


class _Declared(NamedTuple):
    """What the schemas of some tools say of secrets. The tools are kept with it: they are known by their identity."""

    tools: tuple[ToolSpec, ...]
    names: frozenset[str]
    values: tuple[Any, ...]
    taken: bool
    """There is a parameter that takes one."""


_DECLARED: dict[tuple[int, ...], _Declared] = {}
_MOST_DECLARED = 8


def _declared_by(tools: Tools) -> _Declared:
    """Looked for once for each list of tools: there may be thousands."""
    specs = tuple(tools.specs())
    key = tuple(map(id, specs))
    found = _DECLARED.get(key)
    if found is None:
        found = _Declared(
            specs,
            frozenset().union(*map(secret_names, specs)),
            tuple(value for tool in specs for value in secrets_written_in(tool)),
            any(map(takes_secrets, specs)),
        )
        while len(_DECLARED) >= _MOST_DECLARED:
            _DECLARED.pop(next(iter(_DECLARED)), None)
        _DECLARED[key] = found
    return found


def _metadata_in_secrets(value: Any, resolve: Resolve) -> set[str]:
    """The metadata that a plan puts into secret parameters."""
    return {
        re.split(r"[.\[|]", ref.path)[0].strip(' "')
        for tool, parameters in _calls(value, resolve)
        for _, secret in secrets_in(tool, parameters)
        for ref in references(secret)
        if ref.head == "metadata" and ref.path
    }


def _calls(value: Any, resolve: Resolve) -> Iterable[tuple[ToolSpec, JsonObject]]:
    """Every call that an answer or a plan describes, however it writes that."""
    for node in _objects(value):
        named = next((node[key] for key in _TOOL if isinstance(node.get(key), str)), None)
        given = next((_opened(node[key]) for key in _PARAMETERS if key in node), None)
        tool = resolve(named) if named is not None and isinstance(given, dict) else None
        if tool is not None and isinstance(given, dict):
            yield tool, given


def _objects(value: Any, depth: int = 0) -> Iterable[Mapping[str, Any]]:
    value = _opened(value)
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item, depth + 1)


def _opened(value: Any) -> Any:
    """A text that holds a JSON object, as that; models write parameters so."""
    if isinstance(value, str) and not isinstance(value, Masked) and value.lstrip()[:1] == "{":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def reveal_or_none(value: Any) -> Any:
    try:
        return reveal(value)
    except SecretLost:
        return None


# ── what turns out to be secret late ──


E = TypeVar("E", bound=AnyEvent)


class LateSecrets:
    """`ports.Redaction`: every secret that is known now is masked, as it would have been from the beginning."""

    def __init__(self, known: KnownSecrets, places: Iterable[str]) -> None:
        """`places`: where in the metadata the late ones stand, so that they are asked for where the task is resumed."""
        self._known = KnownSecrets(known)  # one of its own: it is used in the store's thread
        self._places = dict.fromkeys(places, "")
        self.kept: dict[str, Any] = {}
        """What the artifacts stood for that were changed: this process goes on with it."""

    def artifact(self, artifact_id: str, data: bytes) -> bytes:
        if artifact_id.startswith(STREAMED):
            return self._stream(artifact_id, data)
        value = read_now(data)
        masked = self._known.masked(value)
        if masked is value:
            return data
        self.kept[artifact_id] = value
        again = pack(masked, 0)
        return data if again.stored is None else again.stored.data

    def _stream(self, artifact_id: str, data: bytes) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        shown = self._known.hide(text)
        if shown == text:
            return data
        self.kept[artifact_id] = value_of(data, "application/octet-stream")
        return shown.encode("utf-8", "surrogateescape")

    def event(self, event: AnyEvent) -> AnyEvent:
        made = self._known.masked_stored(event)
        if isinstance(made, TaskSubmitted) and made.masked:
            made = made.model_copy(update={"secrets": {**self._places, **made.secrets}})
        changed: dict[str, Any] = {
            name: value.model_copy(update={"masked": True})
            for name, value in made.__dict__.items()
            if isinstance(value, Artifact) and value.artifact_id in self.kept
        }
        if isinstance(made, PreviousTasksRead):
            tasks = _marked(made.tasks, self.kept.keys())
            changed.update({"tasks": tasks} if tasks is not made.tasks else {})
        files: tuple[Artifact, ...] = getattr(made, "files", ())
        if any(file.artifact_id in self.kept for file in files):
            changed["files"] = tuple(
                file.model_copy(update={"masked": True}) if file.artifact_id in self.kept else file
                for file in files
            )
        return made.model_copy(update={**changed, "masked": True}) if changed else made


def _marked(value: Any, changed: Collection[str]) -> Any:
    """The value in which the artifacts that were changed say that something was cut out of them, however deep they stand."""
    if isinstance(value, Artifact):
        return value.model_copy(update={"masked": True}) if value.artifact_id in changed else value
    if isinstance(value, tuple):
        items = tuple(_marked(item, changed) for item in value)
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, Kept):
        artifact, files = _marked(value.artifact, changed), _marked(value.files, changed)
        if artifact is value.artifact and files is value.files:
            return value
        return value.model_copy(update={"artifact": artifact, "files": files, "masked": True})
    if isinstance(value, Frozen):
        made = {
            name: new for name, old in value.__dict__.items() if (new := _marked(old, changed)) is not old
        }
        return value.model_copy(update=made) if made else value
    return value
