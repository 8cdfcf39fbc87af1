"""Many texts are found together, each where it stands, in a time that does not grow with their number."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import time
from collections.abc import Callable
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.secrets import MASK, KnownSecrets
from replan.core.secrets.index import Index, find

LETTERS = st.text("ab1 é", min_size=0, max_size=40)


def spent(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def is_word(text: str, start: int, end: int) -> bool:
    around = text[start - 1 : start] + text[end : end + 1] if start else text[end : end + 1]
    return not re.search("[0-9A-Za-z]", around)


@given(
    LETTERS,
    st.lists(st.tuples(st.text("ab1 é", min_size=4, max_size=12), st.booleans()), max_size=6),
    st.integers(1, 3),
)
def test_what_is_found_is_what_stands_there(text: str, wanted: list[tuple[str, bool]], parts: int) -> None:
    indexes = [Index() for _ in range(parts)]
    for number, (each, word) in enumerate(wanted):
        indexes[number % parts].add([each.encode()], word=word)
    found = set(find(indexes, text.encode()))
    whole = {each for each, word in wanted if not word}
    expected: set[tuple[int, int]] = set()
    for each, _ in wanted:
        for start in range(len(text)):
            end = start + len(each)
            if text.startswith(each, start) and (each in whole or is_word(text, start, end)):
                expected.add((len(text[:start].encode()), len(text[:end].encode())))
    assert found <= expected
    assert {start for start, _ in found} == {start for start, _ in expected}
    longest = {start: max(end for begin, end in expected if begin == start) for start, _ in expected}
    assert {start: max(end for begin, end in found if begin == start) for start, _ in found} == longest


@given(st.integers(0, 9), st.sampled_from(["secret-value-1", "short", "größe-9"]), st.sampled_from(["", "é"]))
def test_a_text_longer_than_a_piece_is_gone_through_to_its_end(shift: int, value: str, more: str) -> None:
    index = Index()
    index.add([value.encode()], word=False)
    for before in (16_384 - 9, 2 * 16_384 - 4, 16_384):
        text = more + "x" * (before + shift)
        data = (text + value + "y").encode()
        start = len(text.encode())
        assert find([index], data) == [(start, start + len(value.encode()))]


def test_secrets_that_overlap_leave_nothing_of_each_other() -> None:
    known = KnownSecrets()
    known.add("alpha-beta-1")
    known.add("beta-1-gamma")
    known.add("beta-1-gamma-delta")
    assert known.hide("<alpha-beta-1-gamma-delta>") == f"<{MASK}>"


@pytest.mark.parametrize("form", ["plain", "short", "beside a name", "json"])
def test_ten_times_as_many_secrets_take_ten_times_as_long_and_not_a_hundred(form: str) -> None:
    def work(count: int) -> None:
        known = KnownSecrets()
        if form == "json":
            known.add(json.dumps({f"k{n}": f"value-{n:06d}-abc" for n in range(count)}))
        for n in range(count if form != "json" else 0):
            name = "pin" if form == "beside a name" else "password"
            text = {"plain": f"pw-{n:06d}-xyZ", "short": f"p{n:05d}", "beside a name": f"{n % 1000:03d}"}[
                form
            ]
            known.add(text, f"{name}{n % 50}")
        rows = [{"name": f"n{n}", "text": f"of {n}: nothing, pin: 1"} for n in range(count)]
        known.masked(rows)

    few, many = spent(lambda: work(200)), spent(lambda: work(2000))
    assert many < 40 * max(few, 0.005)


def test_a_text_is_gone_through_in_a_time_that_the_number_of_secrets_does_not_change_much() -> None:
    text = "lorem ipsum dolor sit amet, password: none; " * 5000
    one, thousand = KnownSecrets(), KnownSecrets()
    one.add("pw-000000-xyZ", "password")
    for n in range(1000):
        thousand.add(f"pw-{n:06d}-xyZ", "password")
    assert spent(lambda: thousand.hide(text)) < 15 * max(spent(lambda: one.hide(text)), 0.005)


def go_json(value: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def dotnet_json(value: str) -> str:
    text = json.dumps(value).replace("'", "\\u0027").replace("+", "\\u002B").replace("&", "\\u0026")
    return text.replace("<", "\\u003C").replace(">", "\\u003E").replace('\\"', "\\u0022")


WRITERS = {
    "SQL": lambda v: v.replace("'", "''"),
    "CSV": lambda v: v.replace('"', '""'),
    "shlex": shlex.quote,
    "a shell": lambda v: v.replace("'", "'\\''"),
    "printf %q": lambda v: "".join(sign if sign.isalnum() else f"\\{sign}" for sign in v),
    "Go": go_json,
    ".NET": dotnet_json,
    "html.escape": html.escape,
    "Jinja": lambda v: html.escape(v).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "XML": lambda v: html.escape(v).replace("&#x27;", "&apos;"),
    "an XML attribute": quoteattr,
    "XML in ASCII": lambda v: v.encode("ascii", "xmlcharrefreplace").decode(),
    "unicode_escape": lambda v: v.encode("unicode_escape").decode(),
    "hex with colons": lambda v: v.encode().hex(":"),
    "bytes in C": lambda v: "".join(f"\\x{byte:02x}" for byte in v.encode()),
    "base32": lambda v: base64.b32encode(v.encode()).decode(),
    "base64 of JSON": lambda v: base64.b64encode(json.dumps({"key": v}).encode()).decode(),
    "an SQL error in JSON": lambda v: json.dumps("near '" + v.replace("'", "''") + "'"),
    "UTF-8 read as latin-1": lambda v: v.encode().decode("latin-1"),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    "value",
    [
        "it'sMe2024xyZ",
        'say"Me2024xyZ',
        "Tr0ub&dor3xyZ",
        "Größe-99-xyZab",
        "ab+cd/ef==xyZ9",
        "a'b\"c&d\\e2024",
    ],
)
def test_a_secret_is_known_however_programs_quote_and_escape_it(writer: str, value: str) -> None:
    known = KnownSecrets()
    known.add(value, "api_key")
    written = WRITERS[writer](value)
    shown = known.hide(f"of it: {written}, told")
    assert MASK in shown
    assert value[-4:] not in shown
    assert not any(written[at : at + 9] in shown for at in range(len(written) - 9)) or "base" in writer


def test_a_number_is_known_in_its_other_forms() -> None:
    known = KnownSecrets()
    known.add(8361940275, "api_key")
    assert known.masked({"n": 8361940275, "f": 8361940275.0, "t": "8361940275"}) == dict.fromkeys("nft", MASK)


def test_making_ready_for_the_worst_secret_is_no_work_of_a_second() -> None:
    started = time.process_time()
    KnownSecrets().add("it's-\"a&b<c>/größe\\%" * 3, "password")
    assert time.process_time() - started < 1
