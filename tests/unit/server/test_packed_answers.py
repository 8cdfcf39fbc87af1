"""Who takes an answer that is compressed."""

from __future__ import annotations

import pytest

from replan.server.http.packing import takes_gzip


@pytest.mark.parametrize(
    ("said", "takes"),
    [
        ([], False),
        (["identity"], False),
        (["gzip"], True),
        (["br, GZIP;q=0.5"], True),
        (["br", "gzip"], True),
        (["gzip;q=0"], False),
        (["gzip; q = 0.000, *"], False),
        (["*;q=0.1"], True),
        (["*;q=0"], False),
        (["gzipped"], False),
        (["gzip;level=0"], True),
    ],
)
def test_only_whoever_says_so(said: list[str], takes: bool) -> None:
    headers = [(b"accept-encoding", one.encode()) for one in said]
    assert takes_gzip({"type": "http", "headers": headers}) is takes
