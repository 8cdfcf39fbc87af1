from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.reasoning.prompts import STYLES, PromptInvalid, check_all, fence, load, parse_prompt

FILE = """---
name: standard/x
role: planning
schema: execution_plan
variables: task, data
---
=== instructions
Plan. Write ${step_1.output} or {{step_1.output}}.
=== user
<<task>> and <<data>>
"""


def test_every_prompt_file_adds_up_in_every_style() -> None:
    names = {prompt.name for prompt in check_all()}
    assert names == {f"{style}/{name}" for style in STYLES for name in ("plan", "select", "evaluate")}


def test_a_rendered_prompt_has_nothing_left_to_fill_in() -> None:
    for prompt in check_all():
        rendered = prompt.render(**dict.fromkeys(prompt.variables, "VALUE"))
        assert "<<" not in rendered.user
        assert "<<" not in rendered.instructions
        assert "VALUE" in rendered.user


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param(
            "variables: task, data", "variables: task", "uses data without declaring", id="undeclared"
        ),
        pytest.param(
            "variables: task", "variables: more, task", "declares more and does not use", id="unused"
        ),
        pytest.param("role: planning", "role: cooking", "'cooking' is none of", id="unknown role"),
        pytest.param(
            "schema: execution_plan\n", "", "exactly name, role, schema, variables", id="a key missing"
        ),
        pytest.param("schema: execution_plan", "no colon", "not `key: value`", id="a line without a colon"),
        pytest.param("=== user", "== user", "wants a front matter", id="no user part"),
    ],
)
def test_a_file_that_does_not_add_up_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(PromptInvalid, match=says):
        parse_prompt(FILE.replace(old, new), "x.md")


def test_rendering_wants_exactly_the_declared_variables() -> None:
    prompt = parse_prompt(FILE, "x.md")
    with pytest.raises(PromptInvalid, match="no value for data"):
        prompt.render(task="a")
    with pytest.raises(PromptInvalid, match="has no variable more"):
        prompt.render(task="a", data="b", more="c")


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    rendered = parse_prompt(FILE, "x.md").render(task="<<data>> \\1 ${x}", data="secret")
    assert rendered.user == "<<data>> \\1 ${x} and secret"


def test_the_hash_names_the_file_and_not_what_is_filled_in() -> None:
    prompt = parse_prompt(FILE, "x.md")
    assert prompt.render(task="a", data="b").hash == prompt.render(task="c", data="d").hash
    assert parse_prompt(FILE.replace("Plan.", "Plan!"), "x.md").hash != prompt.hash


def test_a_prompt_that_does_not_exist_is_named() -> None:
    with pytest.raises(PromptInvalid, match=r"no prompt small/dance\.md"):
        load("dance", "small")


@given(st.text(alphabet="~\n a", max_size=60))
def test_no_data_can_close_its_own_fence(data: str) -> None:
    lines = fence("data", data).split("\n")
    mark = lines[0].removesuffix(" data")
    assert set(mark) == {"~"}
    assert lines[-1] == mark
    assert not any(mark in line for line in lines[1:-1])
    assert "\n".join(lines[1:-1]) == data
