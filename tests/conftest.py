"""What every test may use."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("replan", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("replan")  # no test fails because the machine is busy


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_weights(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody finds the weights of the built-in model by chance: what needs them is marked `live`."""
    if request.node.get_closest_marker("live") is None:
        monkeypatch.setenv("REPLAN_MODELS_DIR", str(Path(__file__).parent / "no-weights"))


def pytest_collection_finish() -> None:
    """What collecting has made stays to the end: who looks at all objects, as tests of leaks do, need not look at it."""
    gc.collect()
    gc.freeze()
