"""What tests of workers share, and tests of leaks."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from workers_here import Here, here_on

from postgres_server import PostgresServer


@pytest.fixture
def here(postgres_database: str, postgres_server: PostgresServer) -> Iterator[Here]:
    with here_on(postgres_database, postgres_server) as made:
        yield made


@pytest.fixture
def here_anew(postgres_new_database: str, postgres_server: PostgresServer) -> Iterator[Here]:
    """Where nobody has made a table yet."""
    with here_on(postgres_new_database, postgres_server) as made:
        yield made


@pytest.fixture(scope="module")
def young_garbage() -> None:
    """Collections look only at what the tests of the module have made: there are many of them."""
    gc.collect()
    gc.freeze()  # for good: `unfreeze` would bring back what collecting the tests has made
