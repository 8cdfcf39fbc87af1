"""A path that names a part twice, and that twice, and so on, makes a value of few parts that a walk through it does not end."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from cpu_time import cpu
from replan.core.references.conditions import holds
from replan.core.references.meter import Meter, PathError
from replan.core.references.resolve import resolve
from replan.errors import UnresolvedReference

DOUBLED = ["[@,@]", "{a:@,b:@}", "[@,@]|[*]", "[@,@]|reverse(@)"]
GONE_THROUGH = [
    *("to_string(@)", "contains(@, 'x')", "@ == @", "{a:@} == @", "sort_by(@, &@)", "min_by(@, &@)", "max(@)", "sort(@)"),
    *("[?@ == 'x']", "map(&to_string(@), @)", "map(&[@,@], @)|@ == @", "join('', @)"),
]  # fmt: skip
"""What looks at the whole of a value."""


def looked_up(value: Any) -> Any:
    return lambda reference: (value, "a")


@pytest.mark.parametrize("doubled", DOUBLED)
@pytest.mark.parametrize("end", [*GONE_THROUGH, "@"])
def test_what_is_doubled_many_times_holds_nothing_up(doubled: str, end: str) -> None:
    path = "a.output" + f"|{doubled}" * 40 + f"|{end}"
    with cpu(3):
        for text in (f"${{{path}}}", f"${{= length({path}) == 0 || [{path}] == 1 }}"):
            with contextlib.suppress(
                UnresolvedReference
            ):  # some parts are of a kind that the function does not take
                resolve(text, looked_up("x"), Meter())
    if end != "@":
        with cpu(3), contextlib.suppress(PathError):
            holds(path, {"a": {"output": "x"}})


@pytest.mark.parametrize("end", ["@", "to_string(@)", "@ == @"])
def test_what_is_doubled_many_times_is_told(end: str) -> None:
    with pytest.raises(UnresolvedReference, match="take a part of the value"):
        resolve("${a.output" + "|[@,@]" * 40 + f"|{end}}}", looked_up("x"), Meter())


@pytest.mark.parametrize("end", ["to_string(@)", "contains(@, 'x')", "@ == @"])
def test_a_large_value_is_still_gone_through(end: str) -> None:
    large = [{"sku": f"s-{n}", "price": n} for n in range(5_000)]
    assert resolve(f"${{a.output|{end}}}", looked_up(large), Meter()) is not None


def test_a_list_of_many_numbers_is_still_summed_up() -> None:
    assert resolve("${= sum(a.output) }", looked_up(list(range(50_000))), Meter()) == sum(range(50_000))
    assert resolve("${max(a.output)}", looked_up(list(range(50_000))), Meter()) == 49_999
