"""What two calls are about: texts, numbers, and files under any of their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.calls.things import things_of

NAMES = st.lists(st.text("abcxyz_-0", min_size=1, max_size=4), min_size=1, max_size=4)


def meet(one: object, other: object) -> bool:
    found = things_of({"x": one}).meet(things_of({"y": other}))
    assert found is things_of({"y": other}).meet(things_of({"x": one}))
    return found


@given(parts=NAMES, data=st.data())
def test_a_file_is_one_thing_under_all_of_its_names(parts: list[str], data: st.DataObject) -> None:
    spelled: list[str] = []
    for part in parts:
        spelled += [data.draw(st.sampled_from(("", ".", "up/.."))), part.upper() if len(part) > 2 else part]
    head = data.draw(st.sampled_from(("", "/", "./", "//")))
    sign = data.draw(st.sampled_from(("/", "\\")))
    assert meet("/".join(parts), head + sign.join(one for one in spelled if one).replace("/", sign))


@given(parts=NAMES, depth=st.integers(0, 4), how=st.sampled_from(("", "/", "/*", "/**/q")))
def test_a_folder_is_about_all_that_is_in_it(parts: list[str], depth: int, how: str) -> None:
    above = "/".join(parts[: min(depth, len(parts) - 1)])
    assert meet("/".join(parts), (above or "/") + how)
    assert meet("/".join(parts), f"rm -r '{above or '/'}/'; echo done")


@given(parts=NAMES, other=st.text("def", min_size=1, max_size=3))
def test_what_lies_beside_it_is_another_thing(parts: list[str], other: str) -> None:
    assert not meet("/".join(parts), "/".join([*parts[:-1], other]))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("conf/c.txt", ["a", {"path": "conf/c.txt"}], True),
        ("conf/c.txt", "conf/c.txt.bak", False),
        ("conf/c.txt", "configuration", False),
        ("Ann", "Ann", True),
        ("Ann", "Bob", False),
        (7, "7", True),
        ("c.txt", "rm c.txt && ls", True),
        ("Ann", "Tell Ann that it is done.", False),
        ("https://a.example/b/c", "https://a.example/b", True),
        ("c.txt", "c.txt\n" * 5_000, False),
    ],
)
def test_other_texts_are_compared_as_they_are(one: object, other: object, same: bool) -> None:
    assert meet(one, other) is same
