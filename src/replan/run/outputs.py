"""Outputs on their way in and out: measured, kept apart when large, loaded when referred to."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from replan.core.ids import digest
from replan.core.outputs import artifacts_of, compose
from replan.core.preview import artifact_of
from replan.core.state import Output, StepState
from replan.core.types import Artifact
from replan.errors import ToolCallError
from replan.ports import ArtifactStore, NewArtifact

_SMALL = (int, float, bool, type(None))


def pack(value: Any, limit: int) -> tuple[Any, Artifact | None, NewArtifact | None]:
    """A value as it goes into the log: itself, or the artifact that holds it (`limit`: bytes of JSON).

    `ToolCallError` of kind `output` if JSON cannot hold it.
    """
    if isinstance(value, _SMALL):
        return value, None, None
    try:
        data = to_json(value, inf_nan_mode="constants")
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        raise ToolCallError(f"the output cannot be kept as JSON: {error}", kind="output") from None
    if len(data) <= limit:
        return value, None, None
    text = data.decode("utf-8")
    artifact_id = "art_" + digest(text)
    return None, artifact_of(artifact_id, text, value, len(data)), NewArtifact(artifact_id, data)


class Loaded:
    """Artifacts that have been read, and the values that outputs stand for with them."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def value_of(self, output: Output) -> Any:
        if output.artifact is None:
            return output.value
        return self._values[output.artifact.artifact_id]

    def output_of(self, step: StepState) -> Any:
        return compose(step, self.value_of)

    async def load(self, store: ArtifactStore, task_id: str, artifacts: Iterable[Artifact]) -> None:
        for artifact in artifacts:
            if artifact.artifact_id not in self._values:
                data = await store.artifact(task_id, artifact.artifact_id)
                self._values[artifact.artifact_id] = json.loads(data)

    async def load_steps(self, store: ArtifactStore, task_id: str, steps: Iterable[StepState]) -> None:
        for step in steps:
            await self.load(store, task_id, artifacts_of(step))
