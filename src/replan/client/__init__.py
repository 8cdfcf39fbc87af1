"""The Python client of the service: the names of `Replan`, over HTTP."""

from __future__ import annotations

from replan.client.client import Client
from replan.client.sync import SyncClient

__all__ = ["Client", "SyncClient"]
