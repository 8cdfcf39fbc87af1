"""What was asked, in one digest: to tell a repeated submission from another one under the same id."""

from __future__ import annotations

from replan.core.events import TaskSubmitted
from replan.core.ids import canonical, digest


def request_of(event: TaskSubmitted) -> str:
    """The same request gives the same, in whatever order its names come; where it is run from does not count."""
    asked = {**event.__dict__, "policy": event.policy.model_dump(mode="json")}
    for name in ("settings", "tools", "secrets", "masked"):
        del asked[name]
    return digest(canonical(asked))
