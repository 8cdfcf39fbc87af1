"""A value that stands for one is known as such wherever it is written, and nothing else is taken for one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.plan.placeholders import placeholders
from replan.core.types import ToolSpec


def ship(**more: Any) -> ToolSpec:
    to = {"type": "string", **more}
    properties = {
        "to": to,
        "text": {"type": "string"},
        "memo": {"type": "string"},
        "status": {"type": "string"},
    }
    properties["items"] = {"type": "array", "items": {"type": "object", "properties": {"to": to}}}  # type: ignore[dict-item]
    return ToolSpec(id="ship", name="ship", parameters={"type": "object", "properties": properties, "required": ["to", "text"]})  # fmt: skip


def found(
    text: Any, name: str = "to", tool: ToolSpec | None = None, known: str = ""
) -> list[tuple[str, str]]:
    return list(
        placeholders(tool or ship(), {name: text}, lambda piece: piece.casefold() in known.casefold())
    )


WHOLE = [
    "<address>", "<your address>", "TODO", "todo", "TBD", "fixme", "your_address", "YOUR_ADDRESS", "YOUR-ADDRESS-HERE", "your address",
    "Your Name", "[address]", "[ADDRESS]", "[Your Name]", "[insert address here]", "{address}", "PLACEHOLDER", "address_placeholder",
    "xxx", "...", "…", "***", "address_here", "REPLACE_ME", "change-me", "replace with address", "Fill in", "fill in the address",
    "to be determined", "insert address here", "N/A", "n/a", "not available", '"<address>"', " TODO. ", "undefined",
]  # fmt: skip
INSIDE = [
    "<address>, Rome", "<street>, <town>", "TODO: address", "[street], [town]", "[name], Rome", "https://api.x.org/YOUR_KEY/a",
    "${a.output.street}, <town>", "key=your_api_key", "Rome, PLACEHOLDER", "{your name}, Rome", "https://your-company.com/a",
]  # fmt: skip
VALUES = [
    "Hill 3, Rome", "<b>bold</b>", "<p>", "<p>Hi", "<br>", "<order><id>5</id></order>", '<a href="x">y</a>', "List<String>",
    "a < b and c > d", "Ann <ann@x.org>", "<https://x.org>", "<@U12>", "[URGENT] the server is down", "[WIP] x", "[docs](https://x)",
    "[a-z]+", "[1, 2]", '["a"]', '{"a": 1}', "https://x.org/{id}", "#include <vector>", "come here", "anyone here?", "x > 3", "NA",
    "SELECT [Order Date] FROM [Orders]", "Usage: tool <file> [options]", "Press <Ctrl>+<C>, then <Enter>", "Press <enter>",
    "(?P<year>[0-9]{4})-<month>", "<Bob> hi Ann", "[server]", "Status: <unknown>", "print(data[name])", "input[name]", "//div[title]",
    "s[name]", "ARRAY[id]", "@app.route('/users/<user_id>')", "GET /users/<id> returns 404", "git checkout -b <branch>",
    "The tag <title> is missing in index.html", "country='<unknown>'", "TODOs and more", "<script>", "<div>", "<input>", "<no subject>",
    "docs/your-first-app.md", "bring-your-own-device", "Your Majesty", "you and your family", "${a.output.x}", "{{a.output.x}}",
    "${a.output.items[?x < `3`].y}", "$${address}", "none", "unknown", "xx", "", " ", "a TODO list", "one\ntwo <c> three",
]  # fmt: skip


@pytest.mark.parametrize("text", [*WHOLE, *INSIDE])
def test_a_placeholder_is_known(text: str) -> None:
    assert [place for place, _ in found(text)] == ["to"]


PROSE = ["TODO: buy milk", "TODO", "your_table", "the field your_id is empty", "export TOKEN=your_token before you start", "Set REPLACE_ME in the config", "address_here", "N/A"]  # fmt: skip


@pytest.mark.parametrize("text", PROSE)
@pytest.mark.parametrize("name", ["text", "memo", "search_query"])
def test_words_for_people_are_none(text: str, name: str) -> None:
    assert found(text, name) == []


@pytest.mark.parametrize("text", VALUES)
def test_a_value_is_none(text: str) -> None:
    assert found(text) == []


def test_it_is_found_at_any_depth() -> None:
    assert [place for place, _ in found([{"to": "Rome"}, {"to": "<address>"}], "items")] == ["items[1].to"]


@pytest.mark.parametrize("text", ["<address>", "TODO", "your_id", "N/A", "..."])
@pytest.mark.parametrize(
    "schema", [{"enum": [1]}, {"const": 1}, {"default": 1}, {"examples": [1]}, {"anyOf": [{"enum": [1]}]}]
)
def test_what_the_schema_names_is_a_value(text: str, schema: Any) -> None:
    def named(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: named(value) for name, value in part.items()}
        return [named(one) for one in part] if isinstance(part, list) else text

    assert found(text, tool=ship(**named(schema))) == []


@pytest.mark.parametrize("text", ["<address>", "TODO: paint", "[Your Name]", "YOUR_KEY"])
def test_what_the_task_says_itself_is_a_value(text: str) -> None:
    assert found(text) != []
    assert found(text, known=f"write {text.lower()} into the file") == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Your order", "text"),
        ("N/A", "text"),
        ("N/A", "memo"),
        ("not available", "status"),
        ("todo", "status"),
        ("TODO", "status"),
        ("Todo", "status"),
    ],
)
def test_it_matters_what_the_parameter_is(text: str, name: str) -> None:
    assert found(text, name) == []


@pytest.mark.parametrize(
    "text", ["Dear [Your Name],\nhow are you", "<p>Dear [insert name here]</p>", "a" * 400 + " <your name>"]
)
def test_brackets_that_address_their_reader_count_in_any_text(text: str) -> None:
    assert found(text, "text") != []


@given(st.text(st.sampled_from("<>[]{}_-. /:TODOabc…*$`\n"), max_size=40))
def test_what_stands_in_the_task_is_never_one(text: str) -> None:
    assert found(text, known=text) == []


@given(
    st.lists(
        st.sampled_from(
            ["Hill", "3", "Rome", "street", "ship", "to", "name", "Ann's", "5.50", "&", "key", "a-b"]
        ),
        max_size=8,
    )
)
def test_plain_words_are_never_one(words: list[str]) -> None:
    assert found(" ".join(words)) == []


@given(
    st.sampled_from(["street", "town name", "zip_code"]),
    st.sampled_from(["", "Rome, ", "3; "]),
    st.sampled_from(["", ", Rome", ", 5"]),
)
def test_a_name_in_angles_is_one_whatever_parts_stand_beside_it(name: str, before: str, after: str) -> None:
    assert found(f"{before}<{name}>{after}") == [("to", f"<{name}>")] or not (before or after)


@given(st.text(st.sampled_from("<[{ your_-TODO"), min_size=1_000, max_size=4_000))
def test_a_long_text_is_gone_through_in_time_that_grows_with_it(text: str) -> None:
    with cpu(2):
        found(text)
