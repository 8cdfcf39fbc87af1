"""Audit records as files of JSON lines, which are rotated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from replan.core.audit.records import audit_record
from replan.core.events import Record
from replan.core.types import JsonObject
from replan.projections.json_lines import JsonLines

NAME = "audit.file"
"""What the cursor is kept under."""


class AuditFile(JsonLines):
    """A consumer that writes them to `path`. `masked`: the value without what is known to be secret here."""

    def __init__(
        self,
        path: str | Path,
        *,
        name: str = NAME,
        max_bytes: int = 100_000_000,
        keep: int | None = None,
        masked: Callable[[JsonObject], JsonObject] | None = None,
    ) -> None:
        def form(record: Record) -> JsonObject | None:
            said = audit_record(record)
            return said if said is None or masked is None else masked(said)

        super().__init__(path, name=name, max_bytes=max_bytes, keep=keep, form=form)
