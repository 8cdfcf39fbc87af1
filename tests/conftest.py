"""What every test may use."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

import event_loops
import shared
import thorough
from postgres_server import PostgresServer, end_shared, missing, sql_at

gc.disable()  # while tests are collected: all that is made then stays

thorough.register()

WAITING = frozenset(
    {
        *("test_cli_workers", "test_workers", "test_workers_answers", "test_workers_take_up", "test_workers_wait"),
        *("test_workers_die", "test_workers_prove", "test_workers_audit", "test_deliverers_die", "test_kill_postgres", "test_models_cold"),
        *("test_postgres_faults", "test_postgres_tasks", "test_tool_faults", "test_warm_command"),
        *("test_cli_interrupt", "test_cli_secrets", "test_cli_errors", "test_cli_tasks", "test_cli_newcomers"),
        *("test_cli_recovery", "test_cli_run", "test_cli_terminal", "test_cli_goes_on", "test_howtos"),
        *("test_cli_service", "test_client", "test_client_cut", "test_client_keys"),
        *("test_mcp_http", "test_mcp_processes", "test_mcp_stdio", "test_mcp_wild", "test_kit_processes", "test_remote_chaos"),
        *("test_serve_auth", "test_example_payments", "test_example_connected", "test_inside_langgraph", "test_secret_sweep_sources", "test_kill"),
    }
)  # fmt: skip
"""Modules whose tests wait, for processes or for time to pass: they begin first, and others compute meanwhile."""


DATABASES = "databases"
GARBAGE = (5_000, 10, 5)
"""How often garbage is looked for: more seldom than a program does, as what pytest keeps of each test makes it take long."""


def pytest_xdist_auto_num_workers() -> int | None:
    """More processes than cores, since there are always some whose test waits."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the only test process, or what starts the others
        shared.begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        end_shared(shared.folder(DATABASES))
        shared.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in WAITING)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": event_loops.Loop}


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
def postgres_server() -> PostgresServer:
    """A server that all test processes share, started by the first test that wants it. Who kills one starts his own."""
    if (why := missing()) is not None:
        pytest.skip(why)
    return PostgresServer.shared(shared.folder(DATABASES))


@pytest.fixture(scope="session")
def postgres_admin(postgres_server: PostgresServer) -> Iterator[Callable[[str], object]]:
    """Does what makes and removes databases, over one connection."""
    import psycopg

    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        yield lambda statement: connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer, postgres_admin: Callable[[str], object]) -> str:
    """The name of a database that has every table, of the log and of the queue, and is copied for each test."""
    from replan.engine.procrastinate.queue import Queue
    from replan.store.postgres.store import PostgresStore

    async def prepare(store: PostgresStore) -> None:
        await Queue(store.shared()).prepare()
        await store.aclose()

    made = postgres_server.folder / "template"
    with FileLock(postgres_server.folder / "lock"):
        if not made.exists():
            postgres_admin(f"CREATE DATABASE {made.name}")
            asyncio.run(prepare(PostgresStore(postgres_server.url(made.name))))
            made.touch()
    return made.name


@pytest.fixture
def postgres_database(
    postgres_server: PostgresServer, postgres_admin: Callable[[str], object], postgres_template: str
) -> Iterator[str]:
    """The address of a database of the test's own, with all tables; it takes seven megabytes until the test is over."""
    name = f"d{secrets.token_hex(6)}"
    postgres_admin(f"CREATE DATABASE {name} TEMPLATE {postgres_template} STRATEGY file_copy")
    yield postgres_server.url(name)
    postgres_admin(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_new_database(
    postgres_server: PostgresServer, postgres_admin: Callable[[str], object]
) -> Iterator[str]:
    """The same without any table."""
    name = f"d{secrets.token_hex(6)}"
    postgres_admin(f"CREATE DATABASE {name} STRATEGY file_copy")
    yield postgres_server.url(name)
    postgres_admin(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def new_postgres_schema(
    postgres_server: PostgresServer, postgres_admin: Callable[[str], object]
) -> Callable[[], str]:
    """Gives addresses of new schemas, all in a database that only tests of this process use."""
    database = postgres_server.url(f"p{os.getpid()}")
    postgres_admin(f"CREATE DATABASE {database.rpartition('/')[2]} STRATEGY file_copy")

    def new() -> str:
        name = f"s{secrets.token_hex(6)}"
        sql_at(database, f"CREATE SCHEMA {name}")
        return f"{database}?options=-c%20search_path%3D{name}"

    return new


@pytest.fixture
def postgres_schema(new_postgres_schema: Callable[[], str]) -> str:
    """The address of a new schema, in a database that others have schemas in, too."""
    return new_postgres_schema()


def pytest_collection_finish() -> None:
    """What collecting has made stays to the end: who looks at all objects, as tests of leaks do, need not look at it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    gc.enable()
