"""Stand-ins that are real enough to trust: scripted models and endpoints, virtual time, a store in memory, fake tools.

They are shipped for users' own tests, and need nothing but the core install: `docs/reference/testing.md` has every one of them.
"""

from __future__ import annotations

from replan.testing.clock import ManualIds, VirtualClock, VirtualTimeLoop, virtual_time
from replan.testing.endpoint import ScriptedEndpoint
from replan.testing.endpoint_habits import EndpointFault, Habits
from replan.testing.model import ScriptedModel
from replan.testing.script import ScriptError
from replan.testing.seen import Seen, SeenCall
from replan.testing.store import MemoryStore
from replan.testing.tools import FakeSource, FakeTool, fake_source

__all__ = [
    "EndpointFault",
    "FakeSource",
    "FakeTool",
    "Habits",
    "ManualIds",
    "MemoryStore",
    "ScriptError",
    "ScriptedEndpoint",
    "ScriptedModel",
    "Seen",
    "SeenCall",
    "VirtualClock",
    "VirtualTimeLoop",
    "fake_source",
    "virtual_time",
]
