"""What a listener hears of an answer that is tried several times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replan.llm.relay import Relay

PIECES = st.lists(st.text(alphabet="ab", min_size=0, max_size=4), max_size=8)


@given(tries=st.lists(PIECES, min_size=1, max_size=4))
def test_a_listener_hears_the_longest_text_that_each_try_goes_on_with(tries: list[list[str]]) -> None:
    heard: list[str] = []
    relay = Relay(heard.append)
    expected = ""
    for pieces in tries:
        relay.begin()
        now = ""
        for piece in pieces:
            relay(piece)
            now += piece
            if len(now) > len(expected) and now.startswith(expected):
                expected = now
            assert "".join(heard) == expected
    assert all(heard)


def test_a_piece_is_looked_at_once_however_many_there_are() -> None:
    class Counted(str):
        looks = 0

        def __getitem__(self, at: object) -> str:
            Counted.looks += 1
            return super().__getitem__(at)  # type: ignore[index]

    relay = Relay(lambda _: None)
    relay.begin()
    for _ in range(1000):
        relay(Counted("abc"))
    assert Counted.looks == 1000
