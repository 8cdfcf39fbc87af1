"""Streams of bytes without secrets: the same as their text without them, however they are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replan.core.secrets import KnownSecrets
from replan.run.calls.sealing import Cleared

SECRETS = ["tok-91827364", "süß-geheim", "abcd", "x y z w", "naïve☃"]
NAMED = [("pin", "42"), ("key", "test"), ("pin", "ok")]
PARTS = st.one_of(
    st.sampled_from([one.encode() for one in SECRETS]),
    st.sampled_from(
        [b"pin=42", b'"key": "TEST"', b"pin: o\xe2\x84\xaa ", b"***", b"a", b" ", b"\xff\x00", "ü".encode()]
    ),
    st.binary(max_size=6),
)


def known(secrets: list[str], named: list[tuple[str, str]]) -> KnownSecrets:
    made = KnownSecrets()
    made.add_all([*(("", one) for one in secrets), *named])
    return made


def cleared(data: bytes, cuts: list[int], secrets: KnownSecrets) -> tuple[bytes, bool]:
    clear, out, at = Cleared(secrets), b"", 0
    for cut in sorted(cuts):
        out += clear.take(data[at:cut])
        at = max(at, cut)
    out += clear.take(data[at:])
    return out + clear.rest(), clear.masked


@given(
    st.lists(PARTS, max_size=30).map(b"".join),
    st.lists(st.integers(0, 200), max_size=6),
    st.lists(st.sampled_from(SECRETS), max_size=3),
    st.lists(st.sampled_from(NAMED), max_size=2),
)
def test_it_is_the_same_as_the_whole_text_without_secrets(
    data: bytes, cuts: list[int], secrets: list[str], named: list[tuple[str, str]]
) -> None:
    all_known = known(secrets, named)
    text = data.decode("utf-8", "surrogateescape")
    wanted = all_known.hide(text).encode("utf-8", "surrogateescape")
    assert cleared(data, cuts, all_known) == (wanted, wanted != data)


def test_three_stars_of_somebody_else_are_no_secret_that_was_cut_out() -> None:
    data = b"# Title\n\n***\n" * 20
    assert cleared(data, [7, 100], known(SECRETS, [])) == (data, False)


def test_a_secret_that_comes_to_be_known_on_the_way_is_cut_out_from_there() -> None:
    secrets = KnownSecrets()
    clear = Cleared(secrets)
    assert clear.take(b"tok-91827364 ") == b"tok-91827364 "
    secrets.add("tok-91827364")
    assert clear.take(b"and tok-91827364 and so on") + clear.rest() == b"and *** and so on"
    assert clear.masked
