"""The faults that a tool service over HTTP may have."""

from __future__ import annotations

from remote_faults import faults

SOURCE = "remote over HTTP"
FAULTS = faults("http")
