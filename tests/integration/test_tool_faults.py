"""Every fault of every source: a typed failure of its step in time, and the others go on."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_table import ROWS, observe

pytestmark = pytest.mark.anyio

SOURCES = [importlib.import_module(path.stem) for path in sorted(Path(__file__).parent.glob("faults_*.py"))]
SLACK_SECS = 3.0
"""A busy machine may be late; what is ruled out is a step that waits for something else than its deadline."""


def _cases() -> Iterator[Any]:
    for source in SOURCES:
        for row in ROWS:
            made = source.FAULTS[row]
            if not isinstance(made, str):
                yield pytest.param(made, id=f"{source.SOURCE}: {row}")


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.SOURCE)
def test_every_row_is_there_or_explained(source: Any) -> None:
    assert tuple(source.FAULTS) == ROWS
    assert all(callable(made) or len(made) > 20 for made in source.FAULTS.values())


@pytest.mark.parametrize("made", list(_cases()))
async def test_a_fault_stays_with_its_step(made: Any, tmp_path: Path) -> None:
    async with made() as broken:
        records, fault, secs = await observe(broken, tmp_path)
        completed = {record.event.step_id for record in records if record.event.type == "step_completed"}
        assert {"first", "second", "third"} <= completed
        if not broken.lists:
            return
        if not broken.kinds:
            assert fault is None
            assert "faulty" in completed
            return
        assert fault is not None
        assert fault.kind in broken.kinds, fault
        assert broken.happened in (None, fault.happened), fault
        assert fault.message
        assert secs <= broken.deadline + 1.0 + SLACK_SECS
