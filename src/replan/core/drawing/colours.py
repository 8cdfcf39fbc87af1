"""The colours of drawings. What they say, signs and words say too."""

from __future__ import annotations

FILL = {
    "succeeded": "#d9f2d9",
    "failed": "#f8d7d7",
    "skipped": "#eeeeee",
    "running": "#fff3cd",
    "waiting": "#ffe0b0",
}
STRONG = "#c2410c"
"""Of the critical path."""
