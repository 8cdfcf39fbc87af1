"""The file of keys: whose it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replan.tools.remote.keys import Keys

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name == "nt", reason="Windows has no rights of this kind"),
]


def _modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_the_file_and_its_companions_are_nobody_else_s(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.db")
    before = os.umask(0)
    try:
        await keys.open()
        await keys.begin("k", "content")
        await keys.answer("k", b"secret")
        modes = _modes(tmp_path)
    finally:
        os.umask(before)
        await keys.aclose()
    assert "keys.db" in modes
    assert set(modes.values()) == {0o600}
