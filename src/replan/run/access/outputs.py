"""Outputs of steps, by piece and as files. What is kept apart is never read whole for a piece of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from replan.beside import beside
from replan.core.data.strict_json import write_strictly
from replan.core.references.kept import STREAMED
from replan.core.state.task import Slot, State, StepState
from replan.core.types import Artifact
from replan.errors import InputError, NoSuchPart
from replan.run.access.views import OutputPiece
from replan.run.service.results import step_of
from replan.run.service.tasks import Service

PIECE_BYTES = 65_536
_JSON = "application/json"
_BYTES = "application/octet-stream"


class Content(NamedTuple):
    """A large output as it is kept."""

    media_type: str
    size: int | None
    """Bytes; None: that is not known before they have come."""
    pieces: AsyncIterator[bytes]


async def output(service: Service, state: State, step_id: str, item: int | None, offset: int) -> OutputPiece:
    step = step_of(state, step_id)
    kept = _alone(step, item)
    clear = state.submitted is not None and service.has_in_clear(state.submitted)
    if kept is None or (clear and kept.media_type is None):
        data = await beside(write_strictly, await service.output(state.task_id, step_id, item))
        return _piece(_window(data, offset), offset, len(data), _JSON, None)
    if kept.media_type is not None and not _is_text(kept.media_type):
        return OutputPiece(
            offset=0, total=kept.size, text="", media_type=kept.media_type, artifact_id=kept.artifact_id
        )
    if not 0 <= offset <= kept.size:
        raise _outside(offset, kept.size)
    store = service.parts.store
    data = await store.part(state.task_id, kept.artifact_id, offset, PIECE_BYTES + 4)
    return _piece(data, offset, kept.size, kept.media_type or _JSON, kept.artifact_id)


def _alone(step: StepState, item: int | None) -> Artifact | None:
    """Where the output lies, if that is one thing that is kept apart."""
    if step.step.actions or (step.items is None) != (item is None):
        return None
    call = step.calls.get(Slot(None, None if item is None else item - 1))
    return None if call is None or call.output is None else call.output.artifact


def _is_text(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in (_JSON, "application/xml") or kind.endswith(("+json", "+xml"))


def _window(data: bytes, offset: int) -> bytes:
    if not 0 <= offset <= len(data):
        raise _outside(offset, len(data))
    return data[offset : offset + PIECE_BYTES + 4]


def _outside(offset: int, size: int) -> InputError:
    return InputError(f"offset {offset}: the output has {size} bytes")


def _piece(data: bytes, offset: int, total: int, media_type: str, artifact_id: str | None) -> OutputPiece:
    """A piece that ends between two characters. `data`: a little more than goes into it."""
    if data[:1] and data[0] & 0xC0 == 0x80 and _JSON in media_type:
        raise InputError(
            f"offset {offset} is within a character: go on from the `next_offset` of the piece before"
        )
    end = min(len(data), PIECE_BYTES)
    while end < len(data) and end > PIECE_BYTES - 4 and data[end] & 0xC0 == 0x80:
        end -= 1
    after = offset + end
    return OutputPiece(
        offset=offset,
        total=total,
        text=data[:end].decode("utf-8", "replace"),
        next_offset=after if after < total else None,
        media_type=media_type,
        artifact_id=artifact_id,
    )


async def artifact(service: Service, state: State, artifact_id: str) -> Content:
    kept = _known(state, artifact_id)
    if kept is None and not _of_an_approval(state, artifact_id):
        raise NoSuchPart(f"task {state.task_id!r} has no artifact {artifact_id!r:.200}")
    media_type = kept.media_type if kept is not None else None
    if media_type is None:
        media_type = _BYTES if artifact_id.startswith(STREAMED) else _JSON
    if media_type == _JSON and state.submitted is not None and service.has_in_clear(state.submitted):
        raise NoSuchPart(
            f"artifact {artifact_id!r} of task {state.task_id!r} was kept by an older release with secrets in clear: "
            "read the step's output, which is shown without them"
        )
    pieces = service.parts.store.pieces(state.task_id, artifact_id)
    return Content(media_type, None if kept is None else kept.size, pieces)


def _known(state: State, artifact_id: str) -> Artifact | None:
    if (file := state.files.get(artifact_id)) is not None:
        return file
    if (answer := getattr(state.outcome, "artifact", None)) is not None and answer.artifact_id == artifact_id:
        return answer  # type: ignore[no-any-return]
    for step in state.every_step():
        for call in step.every_call():
            kept = None if call.output is None else call.output.artifact
            if kept is not None and kept.artifact_id == artifact_id:
                return kept
    return None


def _of_an_approval(state: State, artifact_id: str) -> bool:
    """A large parameter of a call that a person is asked about."""
    asked = state.recovery.requests.values() if state.recovery is not None else ()
    return any(artifact_id in one.kept.values() for one in asked)
