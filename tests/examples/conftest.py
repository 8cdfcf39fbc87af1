"""Where the examples are, and what a test of them may need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RECORDINGS = EXAMPLES / "recordings"

# The examples are no part of the package: they are run from the root of the repository, as a reader would.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task log and the shop's logbook in the test's folder, and no settings of whoever runs it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SHOP_LOGBOOK", str(tmp_path / "logbook.md"))
    monkeypatch.delenv("APP_ENV", raising=False)
