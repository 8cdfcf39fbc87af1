"""Which calls may take their time."""

from __future__ import annotations

PATIENT = ("/events", "/result", "/mcp", "/ag-ui", "/a2a")
"""How addresses end whose calls have a limit of their own."""
