"""The faults that a tool service over gRPC may have."""

from __future__ import annotations

from remote_faults import faults

SOURCE = "remote over gRPC"
FAULTS = faults("grpc")
