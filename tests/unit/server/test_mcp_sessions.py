"""How many sessions of MCP a caller may have open."""

from __future__ import annotations

import pytest

from replan.errors import TooMany
from replan.server.mcp.sessions import Sessions


def test_one_caller_s_sessions_keep_no_other_out_and_idle_ones_make_room() -> None:
    now = 0.0
    sessions = Sessions(lambda: now, most=2, idle_secs=10)
    for n in range(2):
        sessions.check_room("a")
        sessions.used("a", f"s{n}")
        now += 1
    with pytest.raises(TooMany, match="holds 2 streams, waits or sessions open") as told:
        sessions.check_room("a")
    assert told.value.retry_after == 8
    sessions.check_room("b")
    sessions.used("a", "s0")  # so that s1 is the one that has lain the longest
    now = 11.5
    sessions.check_room("a")
    sessions.used("a", "s2")
    sessions.closed("a", "s0")
    sessions.closed("nobody", "s9")
    sessions.check_room("a")
