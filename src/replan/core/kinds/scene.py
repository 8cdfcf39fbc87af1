"""A scene: what whoever runs Replan has to say on one kind of task, for each of those who think about it."""

from __future__ import annotations

from replan.core.types import Frozen

DEFAULT = "default"
"""The kind of a task that is of no other."""
ROLES = ("selection", "planning", "reflection", "evaluation")
"""For whom a scene has something to say."""


class Scene(Frozen):
    """Guidance for one kind of task."""

    task_type: str
    description: str = ""
    """Which tasks are of this kind, for whoever has to say of which one is."""
    selection: str = ""
    planning: str = ""
    reflection: str = ""
    evaluation: str = ""
    digest: str = ""
    """Of what was written."""

    def guidance(self, role: str) -> str:
        """What it says to that role."""
        return str(getattr(self, role)) if role in ROLES else ""
