"""What every test may use."""

from __future__ import annotations

import gc
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import thorough
from postgres_server import PostgresServer, missing

gc.disable()  # while tests are collected: all that is made then stays

thorough.register()

WAITING = frozenset(
    {
        *("test_cli_workers", "test_workers", "test_workers_answers", "test_workers_take_up", "test_workers_wait"),
        *("test_workers_die", "test_workers_prove", "test_deliverers_die", "test_kill_postgres", "test_models_cold"),
        *("test_postgres_faults", "test_postgres_tasks", "test_tool_faults", "test_warm_command"),
        *("test_cli_interrupt", "test_cli_secrets", "test_cli_errors", "test_cli_tasks", "test_cli_newcomers"),
        *("test_cli_recovery", "test_cli_run", "test_cli_terminal", "test_cli_goes_on", "test_howtos"),
        *("test_mcp_http", "test_mcp_stdio", "test_mcp_wild", "test_kit_processes", "test_remote_chaos"),
        *("test_example_payments", "test_inside_langgraph", "test_secret_sweep_sources", "test_kill"),
    }
)  # fmt: skip
"""Modules whose tests wait, for processes or for time to pass: they begin first, and others compute meanwhile."""


def pytest_xdist_auto_num_workers() -> int | None:
    """More processes than cores, since there are always some whose test waits."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in WAITING)


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
