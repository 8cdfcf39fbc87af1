"""What every test may use."""

from __future__ import annotations

import gc
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from postgres_server import PostgresServer, missing

gc.disable()  # while tests are collected: all that is made then stays

settings.register_profile("replan", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("replan")  # no test fails because the machine is busy


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def nothing_started_ignores_a_signal() -> Iterator[None]:
    """What is run with `nohup` or in the background ignores signals, and what it starts inherits that.

    A signal that is caught is not inherited: what a test starts hears it, and the tests themselves still do not mind it.
    """
    numbers = [
        getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM") if hasattr(signal, name)
    ]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def no_weights(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody finds the weights of the built-in model by chance: what needs them is marked `live`."""
    if request.node.get_closest_marker("live") is None:
        monkeypatch.setenv("REPLAN_MODELS_DIR", str(Path(__file__).parent / "no-weights"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server of this test process, started by the first test that wants it."""
    if (why := missing()) is not None:
        pytest.skip(why)
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a new database, removed when the test is over: one takes seven megabytes."""
    name = f"d{secrets.token_hex(6)}"
    postgres_server.sql(f"CREATE DATABASE {name}")
    yield postgres_server.url(name)
    postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_schema(postgres_server: PostgresServer) -> str:
    """The address of a new schema, in a database that others have schemas in, too."""
    name = f"s{secrets.token_hex(6)}"
    postgres_server.sql(f"CREATE SCHEMA {name}")
    return f"{postgres_server.url()}?options=-c%20search_path%3D{name}"


def pytest_collection_finish() -> None:
    """What collecting has made stays to the end: who looks at all objects, as tests of leaks do, need not look at it."""
    gc.collect()
    gc.freeze()
    gc.enable()
