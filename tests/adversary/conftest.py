"""The adversary's tasks run as those of the integration tests do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "integration"))
