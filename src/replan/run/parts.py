"""What the loop is given to work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replan.core.types import Role
from replan.ports import Clock, Ids, Model, Store, Tools
from replan.run.feed import Feed


@dataclass(slots=True)
class Parts:
    """The running parts of one Replan."""

    store: Store
    tools: Tools
    models: Mapping[Role, Model]
    clock: Clock
    ids: Ids
    feed: Feed = field(default_factory=Feed)
    driver: str = ""
    """Who drives, for the log."""
