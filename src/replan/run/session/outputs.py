"""Outputs on their way in and out: measured, kept apart when large, loaded when referred to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_json

from replan.beside import beside, seen_through
from replan.core.data.pieces import PIECE, in_pieces, is_large
from replan.core.data.preview import artifact_of, holds_binary
from replan.core.data.strict_json import not_storable, read_strictly
from replan.core.failures.faults import text_of
from replan.core.ids import digest_of
from replan.core.json_reader import read_in_pieces
from replan.core.references.kept import (
    MOST_VALUE,
    KeptBytes,
    id_of,
    misplaced,
    value_of,
    with_names,
    with_values,
)
from replan.core.references.meter import opened
from replan.core.secrets import MASK, Masked, holds_masked, lost, reveal_known, with_masks
from replan.core.state.progress import artifacts_of, compose
from replan.core.state.task import Output, StepState
from replan.core.types import Artifact, JsonObject, ToolSpec
from replan.errors import ToolCallError
from replan.ports import ArtifactStore, KeptOutput, NewArtifact, WithFiles


class Packed(NamedTuple):
    """A value as plain JSON values, and where it is kept if it is too large for the log, or no text."""

    value: Any
    artifact: Artifact | None = None
    stored: NewArtifact | None = None
    files: tuple[Artifact, ...] = ()
    """Those that stand in the value by their names."""
    contents: tuple[NewArtifact, ...] = ()
    """What they hold, stored already."""

    @property
    def new(self) -> tuple[NewArtifact, ...]:
        """Whatever is to be stored with the event that has this output."""
        return self.contents if self.stored is None else (self.stored, *self.contents)

    @property
    def masked(self) -> bool:
        """True if a secret was cut out of what is stored beside the log."""
        return (self.artifact is not None and self.artifact.masked) or any(file.masked for file in self.files)


class Sealed(Packed):
    """An output in which something is masked."""

    @property
    def masked(self) -> bool:
        return True


_NO_MORE = Packed(None)[1:]
_LARGE = 10**18
_MANY_DIGITS = 4000
_MASK = MASK.encode()


def pack_small(value: Any) -> Packed | None:
    """`pack` for what needs no thought; None for anything else."""
    if value is None or value is True or value is False or (type(value) is int and abs(value) < _LARGE):
        return tuple.__new__(Packed, (value, *_NO_MORE))
    return None


async def packed(value: Any, limit: int) -> Packed:
    """`pack`, beside the event loop where the value is large.

    Whatever goes wrong says nothing against the effect that whoever gave the value has had.
    """
    try:
        return await _packed(value, limit)
    except ToolCallError:
        raise
    except Exception as error:
        text = f"the output cannot be kept: {text_of(error)}"
        raise ToolCallError(text, kind="output", happened="unknown") from error


async def _packed(value: Any, limit: int) -> Packed:
    if isinstance(value, KeptOutput):
        return _streamed(value)
    if isinstance(value, WithFiles):
        around = await _packed(value.value, limit)
        files = {one.name: _streamed(one) for one in value.files}.values()
        return around._replace(
            files=tuple(_in_few_words(one.artifact) for one in files if one.artifact is not None),
            contents=tuple(one.stored for one in files if one.stored is not None),
        )
    return await seen_through(pack, value, limit) if is_large(value) else pack(value, limit)


_BEGINNING = 200
"""Characters of a file within an output that the log has: there may be many."""


def _in_few_words(file: Artifact) -> Artifact:
    return file.model_copy(update={"head": file.head[:_BEGINNING], "tail": ""})


class Streamed(Packed):
    """An output that was stored as it came, without secrets."""


def _streamed(kept: KeptOutput) -> Streamed:
    content = kept.content
    artifact = Artifact(
        artifact_id=id_of(content.digest), size=content.size, head=kept.head, tail=kept.tail, shape=kept.shape,
        media_type=kept.media_type, masked=kept.masked,
    )  # fmt: skip
    name = KeptBytes.of(artifact.artifact_id)
    return Streamed(name, artifact, NewArtifact(artifact.artifact_id, kept=content))


async def read_kept(store: ArtifactStore, task_id: str, artifact: Artifact) -> Any:
    """The value that an artifact stands for; the name of one that is too large for a value."""
    if artifact.media_type is None:
        return await read_back(await store.artifact(task_id, artifact.artifact_id), masked=artifact.masked)
    if artifact.size > MOST_VALUE:
        name = KeptBytes.of(artifact.artifact_id)
        return Masked(name) if artifact.masked else name
    value = value_of(await store.artifact(task_id, artifact.artifact_id), artifact.media_type)
    return lost(value) if artifact.masked else value


def pack(value: Any, limit: int) -> Packed:
    """A value as it goes into the log, independent of whoever made it (`limit`: bytes of JSON).

    What is masked in it stays marked as that. `ToolCallError` of kind `output` says what in it JSON cannot hold.
    """
    if (small := pack_small(value)) is not None:
        return small
    try:
        plain, parts = in_pieces(value, _written)
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        wrong = not_storable(value, error)
        raise ToolCallError(f"the output cannot be kept as JSON: {wrong}", kind="output") from None
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    masked = _MASK in data and holds_masked(value)
    if masked:
        plain = with_masks(plain, value)
    if len(data) <= limit and not holds_binary(data):
        return Sealed(plain) if masked else Packed(plain)
    artifact_id = "art_" + digest_of(data)
    artifact, stored = artifact_of(artifact_id, data, plain), NewArtifact(artifact_id, data)
    if masked:
        return Sealed(plain, artifact.model_copy(update={"masked": True}), stored)
    return Packed(plain, artifact, stored)


def _written(piece: Any, depth: int) -> tuple[Any, bytes]:
    data = to_json(piece, inf_nan_mode="constants")
    plain = read_strictly(data, depth)
    if not isinstance(plain, str) and has_long_number(data):
        json.loads(data)  # a number that Python's own reader refuses would make the log unreadable
    return plain, data


def has_long_number(data: bytes) -> bool:
    """True if there are `_MANY_DIGITS` digits in a row: one of them stands at each so many."""
    for at in range(_MANY_DIGITS - 1, len(data), _MANY_DIGITS):
        before = data[at - _MANY_DIGITS + 1 : at + 1]
        if digits := len(before) - len(before.rstrip(_DIGITS)):
            after = data[at + 1 : at + _MANY_DIGITS]
            if digits + len(after) - len(after.lstrip(_DIGITS)) >= _MANY_DIGITS:
                return True
    return False


_DIGITS = b"0123456789"


async def read_back(data: bytes, *, masked: bool = False) -> Any:
    """A value that was kept apart. `masked`: what its secrets were is lost."""

    def read() -> Any:
        value = read_now(data)
        return lost(value) if masked else value

    return await beside(read) if len(data) > PIECE else read()


def read_now(data: bytes) -> Any:
    """The same for whoever is beside the event loop already."""
    return read_in_pieces(data.decode())


def _knowing_files(value: Any, files: Iterable[Artifact]) -> Any:
    """The value in which the names of files are known as such, and those of which a secret was cut out as lost."""
    whole = [one.artifact_id for one in files if not one.masked]
    cut = {one.artifact_id: Masked(KeptBytes.of(one.artifact_id)) for one in files if one.masked}
    found = with_names(value, whole)
    return with_values(found, cut) if cut else found


async def with_files_read(
    store: ArtifactStore, task_id: str, tool: ToolSpec, parameters: JsonObject, files: Mapping[str, Artifact]
) -> JsonObject:
    """The parameters as the tool gets them: what files hold stands in place of their names, but where it takes files."""
    found = misplaced(parameters, tool.parameters, files)
    wanted = {one: files[one] for ids in found.values() for one in ids}
    if not wanted:
        return parameters
    values = {
        one: value_of(await store.artifact(task_id, one), file.media_type or "application/octet-stream")
        for one, file in wanted.items()
    }
    filled: JsonObject = await beside(lambda: {name: with_values(parameters[name], values) for name in found})
    return {**parameters, **filled}


class Loaded:
    """Artifacts that have been read, and the values that outputs stand for with them."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def value_of(self, output: Output) -> Any:
        found = output.value if output.artifact is None else self._values[output.artifact.artifact_id]
        return _knowing_files(found, output.files) if output.files else found

    def output_of(self, step: StepState) -> Any:
        return compose(step, self.value_of)

    async def load(self, store: ArtifactStore, task_id: str, artifacts: Iterable[Artifact]) -> None:
        for artifact in artifacts:
            if artifact.artifact_id not in self._values:
                kept: dict[str, Any] = getattr(store, "kept", {})
                if artifact.artifact_id in kept:
                    self._values[artifact.artifact_id] = kept[artifact.artifact_id]
                    continue
                self._values[artifact.artifact_id] = await read_kept(store, task_id, artifact)

    async def load_steps(self, store: ArtifactStore, task_id: str, steps: Iterable[StepState]) -> None:
        for step in steps:
            await self.load(store, task_id, artifacts_of(step))


def added_metadata(tool: ToolSpec | None, output: Any) -> JsonObject:
    """What a successful output adds to the task's metadata; it may be a text that holds the object."""
    if tool is None or not tool.output_params:
        return {}
    given = opened(reveal_known(output) if isinstance(output, Masked) else output)
    return (
        {name: given[name] for name in tool.output_params if name in given} if isinstance(given, dict) else {}
    )
