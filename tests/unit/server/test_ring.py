"""Whoever reads from a ring, at whatever pace and from wherever, has each stored event once and in order, or is told to read the log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replan.server.streams import ring as rings
from replan.server.streams.ring import Ring

ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("stored"), st.integers(0, 40)),
        st.tuples(st.just("told"), st.integers(0, 40)),
        st.tuples(st.just("read"), st.integers(1, 100)),
    ),
    max_size=400,
)


@given(ACTS, st.integers(0, 30), st.integers(0, 60))
def test_a_reader_has_every_stored_event_once_and_in_order(
    acts: list[tuple[str, int]], since: int, after: int
) -> None:
    ring, last, seen, got = Ring(since), since, after, list[int]()
    at: int | None = None
    for act, size in [*acts, *[("read", 1_000)] * 500]:
        if act == "stored":
            last += 1
            ring.add(last, str(last).encode() * (size > 2))  # some are left out in this form
        elif act == "told":
            ring.add(0, b"told")
        else:
            if at is None or at < ring.first:
                at = ring.place_after(seen)
            if at is None:  # the log has what is missing
                got += range(seen + 1, ring.since + 1)
                seen = ring.since
                continue
            found, at, then = ring.piece(at, seen, size)
            assert sum(map(len, found)) <= size or len(found) == 1
            stored = [int(one) for one in found if one != b"told"]
            assert stored == sorted(set(stored))
            assert all(seen < one <= then for one in stored)
            got += range(seen + 1, then + 1)
            seen = then
    assert got == list(range(after + 1, max(after, last) + 1))


def test_what_is_kept_is_bounded_in_number_and_in_bytes() -> None:
    few, large = Ring(0), Ring(0)
    for number in range(1, 5_000):
        few.add(number, b"x")
        large.add(number, b"x" * 100_000)
        assert few.end - few.first <= 2 * rings.MOST
        assert (large.end - large.first) * 100_000 <= rings.MOST_BYTES + 100_000
    assert few.place_after(10) is None
    assert few.end - few.first >= rings.MOST - 1
