"""A workflow: a plan that was written beforehand, with typed places for what differs from task to task."""

from __future__ import annotations

from collections.abc import Iterator

from replan.core.kinds.scene import DEFAULT
from replan.core.types import Frozen, JsonObject


class Workflow(Frozen):
    """A plan with slots. `steps` are in the form of a plan's, with references to slots in them."""

    workflow_id: str
    description: str
    """What it does, for whoever has to say whether it is what a task wants."""
    slots: dict[str, JsonObject] = {}
    """JSON Schemas by name."""
    optional: tuple[str, ...] = ()
    """Slots without a default that may stay empty."""
    steps: tuple[JsonObject, ...]
    task_type: str = DEFAULT
    """The scene that its tasks are of."""
    specs: tuple[str, ...] = ()
    """Where its tools come from, if whoever runs it by itself names no others."""
    built_in: bool = False
    digest: str = ""
    """Of what was written."""

    @property
    def required(self) -> tuple[str, ...]:
        """The slots that have to be filled."""
        return tuple(
            name
            for name, schema in self.slots.items()
            if "default" not in schema and name not in self.optional
        )

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it calls, as it names them."""
        return tuple(dict.fromkeys(self._named()))

    def _named(self) -> Iterator[str]:
        for step in self.steps:
            for one in step.get("actions") or (step,):
                yield str(one.get("tool", ""))


class UsedWorkflow(Frozen):
    """The workflow that a plan was built from, and what its slots were filled with."""

    workflow_id: str
    digest: str = ""
    slots: JsonObject = {}
    task_type: str = DEFAULT
    described: bool = False
    """The task's words are those of the workflow, as whoever submits it has given none."""
