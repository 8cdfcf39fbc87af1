"""What was read of earlier tasks, into a recording of the model's answers and out of it: a replay reads the same, wherever it is run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from replan.core.events import PreviousTasksRead
from replan.core.following.told import Kept, PreviousTask
from replan.core.secrets import lost
from replan.core.types import JsonObject, Role
from replan.errors import InputError, ModelError, StoreDamaged
from replan.ports import Model, NewArtifact, Records, Replayed, Store
from replan.run.session.context import Run

MOST_CONTENT = 1 << 20
"""Bytes of one large value that a recording has; of a larger one it has what is told of it."""


def recorded_before(models: Mapping[Role, Model], description: str) -> bool:
    """Whether a recording that is replayed has what a task of these words has read."""
    model = _model(models, "planning")
    return isinstance(model, Replayed) and model.knows_previous(description)


def keep(run: Run, event: PreviousTasksRead, artifacts: Sequence[NewArtifact]) -> None:
    """Have it in the recording, where one is made; without secrets."""
    model = _model_of(run)
    if not isinstance(model, Records):
        return
    seen = run.secrets.masked_event(event)
    contents = {
        one.artifact_id: one.data.decode()
        for one in artifacts
        if one.kept is None and len(one.data) <= MOST_CONTENT
    }
    read = {"event": seen.model_dump(mode="json", exclude={"type"}), "contents": contents}
    model.keep_previous(run.state.description, run.secrets.masked(read))


async def taken(run: Run, store: Store) -> tuple[PreviousTasksRead, Sequence[NewArtifact]] | None:
    """What the recording has that is replayed; None where it has nothing."""
    model = _model_of(run)
    read = model.previous_read(run.state.description) if isinstance(model, Replayed) else None
    if read is None:
        return None
    event = PreviousTasksRead.model_validate(read["event"])
    found: dict[str, NewArtifact | None] = {}
    tasks = [await _with_contents(one, read["contents"], store, found) for one in event.tasks]
    event = event.model_copy(update={"tasks": tuple(tasks)})
    return lost(event) if event.masked else event, [one for one in found.values() if one is not None]


async def _with_contents(
    task: PreviousTask, contents: JsonObject, store: Store, found: dict[str, NewArtifact | None]
) -> PreviousTask:
    """The task with what is large of it; where that cannot be had it is told so."""

    async def there(kept: Kept | None) -> Kept | None:
        if kept is None:
            return None
        names = [one.artifact_id for one in (kept.artifact, *kept.files) if one is not None]
        for name in names:
            if name not in found:
                found[name] = await _content(task.task_id, name, contents, store)
        return kept.model_copy(update={"missing": True}) if any(found[one] is None for one in names) else kept

    steps = [
        one.model_copy(update={"output": await there(one.output), "parameters": await there(one.parameters)})
        for one in task.steps
    ]
    return task.model_copy(update={"result": await there(task.result), "steps": tuple(steps)})


async def _content(task_id: str, name: str, contents: JsonObject, store: Store) -> NewArtifact | None:
    if isinstance(text := contents.get(name), str):
        return NewArtifact(name, text.encode())
    with contextlib.suppress(InputError, StoreDamaged):
        return NewArtifact(name, kept=await store.keep(store.pieces(task_id, name)))
    return None


def _model_of(run: Run) -> Model | None:
    """The model that the task's answers come from; None where it asks none."""
    if not run.state.modelled:
        return None
    return _model(run.parts.models, "evaluation" if run.state.given else "planning")


def _model(models: Mapping[Role, Model], role: Role) -> Model | None:
    with contextlib.suppress(ModelError):  # said where it is asked
        return models[role]
    return None
