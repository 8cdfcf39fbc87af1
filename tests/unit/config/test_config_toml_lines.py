"""Where keys stand in a TOML text."""

from __future__ import annotations

import pytest

from replan.config.toml_lines import line_numbers

CASES = [
    pytest.param("a = 1\nb = 2", {("a",): 1, ("b",): 2}, id="keys"),
    pytest.param("[s]\n\n# c\nk = 1", {("s",): 1, ("s", "k"): 4}, id="section and comment"),
    pytest.param("s.k = 1\ns.l = 2", {("s",): 1, ("s", "k"): 1, ("s", "l"): 2}, id="dotted keys"),
    pytest.param('["s"]\n"k" = 1\n\'l\' = 2', {("s",): 1, ("s", "k"): 2, ("s", "l"): 3}, id="quoted"),
    pytest.param("[ s . t ]\nk=1", {("s",): 1, ("s", "t"): 1, ("s", "t", "k"): 2}, id="spaces in a header"),
    pytest.param("a = [\n 1, # ]\n 2,\n]\nb = 1", {("a",): 1, ("b",): 5}, id="list over lines"),
    pytest.param('a = """\nb = 1\n"""\nc = 1', {("a",): 1, ("c",): 4}, id="text over lines"),
    pytest.param('a = """x\\"""""\nc = 1', {("a",): 1, ("c",): 2}, id="quotes before the end"),
    pytest.param("a = '''\n\\'''\nc = 1", {("a",): 1, ("c",): 3}, id="literal text over lines"),
    pytest.param('a = "[\\"#" # x\nb = 1', {("a",): 1, ("b",): 2}, id="brackets in a text"),
    pytest.param("s = {k = 1, l = [1]}\nb = 1", {("s",): 1, ("b",): 2}, id="inline table"),
    pytest.param("[[s]]\nk=1", {("s",): 1, ("s", "k"): 2}, id="list of tables"),
    pytest.param("", {}, id="nothing"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_each_key_has_its_line(text: str, expected: dict[tuple[str, ...], int]) -> None:
    assert line_numbers(text) == expected
