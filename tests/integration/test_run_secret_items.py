"""Of a secret nothing is compared, counted or computed: as an item of a list, in a filter, a condition, or the form of an answer."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from replan import Replan, TaskResult, tool
from replan.testing import ScriptedModel

PASSWORDS = ("Tk5-outputsecret-7733-abcd", "Vw9-othersecret-1212-efgh")
KEY = "Zq7-metadata-9911-xkcd"
LOGINS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "token": {"type": "string", "format": "password"},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "pw": {"type": "string", "format": "password"}},
            },
        },
    },
}
pytestmark = pytest.mark.anyio
OPEN = "it compares or counts a secret"
COMPUTED = "it is a secret, which nothing is computed with"


def step(name: str, tool: str, value: Any = None, **more: Any) -> dict[str, Any]:
    parameters = {} if value is None else {"value": value}
    return {"step_id": name, "tool": tool, "parameters": parameters, **more}


async def run(*steps: dict[str, Any], tmp: Any, model: ScriptedModel | None = None) -> tuple[TaskResult, str]:
    """The result, and all that is stored and sent."""

    @tool(effect="reads", output_schema=LOGINS)
    async def logins() -> dict[str, Any]:
        """The logins."""
        rows = [{"n": at, "pw": one} for at, one in enumerate(PASSWORDS)]
        return {"token": PASSWORDS[0], "rows": rows}

    @tool(effect="reads")
    async def echo(value: Any) -> Any:
        """What it is given."""
        return value

    asked = model or ScriptedModel({})
    db = tmp / "secrets.db"
    async with Replan({"step": asked}, tools=[logins, echo], db=db, evaluation="steps") as replan:
        result = await replan.run(
            "look", plan={"steps": [step("l", "logins"), *steps]}, secrets={"api_key": SecretStr(KEY)}
        )
        events = await replan.history(result.task_id)
    stored = b"".join(one.read_bytes() for one in tmp.glob("secrets.db*")).decode(errors="replace")
    return result, f"{stored}{result}{events}{asked.requests}"


def leaked(seen: str) -> list[str]:
    made = [text for one in PASSWORDS for text in (one, one.upper(), one[::-1], one[:12], one[4:16])]
    return [text for text in made if text in seen]


@pytest.mark.parametrize("over", ["${l.output.rows}", "${l.output.rows[*].{n: n, pw: pw}}"])
@pytest.mark.parametrize(
    "value", ["${= upper(item.pw) }", "${= substring(item.pw, 0, 12) }", "${= split(item.pw, '-') }", "${= length(item.pw) }"]
)  # fmt: skip
async def test_nothing_is_computed_with_a_secret_of_an_item(value: str, over: str, tmp_path: Any) -> None:
    result, seen = await run(step("e", "echo", value, for_each=over), tmp=tmp_path)
    assert not result.succeeded
    assert COMPUTED in result.reason
    assert leaked(seen) == []


@pytest.mark.parametrize("value", ["${reverse(item.pw)}", "${join('-', [item.pw, 'x'])}", "${item.pw}"])
async def test_what_is_made_of_a_secret_of_an_item_is_one(value: str, tmp_path: Any) -> None:
    result, seen = await run(step("e", "echo", value, for_each="${l.output.rows}"), tmp=tmp_path)
    assert result.succeeded, result.reason
    assert leaked(seen) == []


@pytest.mark.parametrize(
    "value",
    [
        "${l.output.rows[?starts_with(pw, 'T')].n}",
        "${l.output.rows[?starts_with(pw, ${item})].n}",
        "${l.output.rows[?pw == 'no'].n}",
        "${l.output.rows[?pw < 'U'].n}",
        "${length(l.output.token)}",
        "${sort_by(l.output.rows, &pw)[*].n}",
        "${max_by(l.output.rows, &pw).n}",
        "${contains(l.output.rows[*].pw, 'x')}",
    ],
)
async def test_no_path_compares_or_counts_a_secret_whatever_it_would_find(value: str, tmp_path: Any) -> None:
    result, _ = await run(step("e", "echo", value, for_each=["S", "T"]), tmp=tmp_path)
    assert not result.succeeded
    assert OPEN in result.reason


@pytest.mark.parametrize(
    "value",
    ["${l.output.rows[?n > `0`].pw}", "${length(l.output.rows)}", "${sort_by(l.output.rows, &n)[*].pw}", "${l.output.rows[?pw].n}"],
)  # fmt: skip
async def test_what_stands_beside_a_secret_is_compared_and_counted(value: str, tmp_path: Any) -> None:
    result, seen = await run(step("e", "echo", value), tmp=tmp_path)
    assert result.succeeded, result.reason
    assert leaked(seen) == []


@pytest.mark.parametrize("letters", ["Z", "Q"])
@pytest.mark.parametrize(
    "when",
    [
        "starts_with(metadata.api_key, '{}')",
        "${{= starts_with(metadata.api_key, '{}') }}",
        "l.output.rows[?starts_with(pw, '{}')]",
        "l.output.rows[?starts_with(${{metadata.api_key}}, '{}')]",
    ],
)
async def test_no_condition_tells_of_a_secret(when: str, letters: str, tmp_path: Any) -> None:
    result, _ = await run(step("e", "echo", "hit", when=when.format(letters)), tmp=tmp_path)
    assert not result.succeeded
    assert OPEN in result.reason


async def test_a_condition_may_ask_whether_there_is_a_secret(tmp_path: Any) -> None:
    result, _ = await run(step("e", "echo", "hit", when="metadata.api_key && l.output.token"), tmp=tmp_path)
    assert result.succeeded, result.reason


async def test_no_model_is_shown_a_secret_in_the_form_of_its_answer(tmp_path: Any) -> None:
    model = ScriptedModel({"step_answer": lambda _: {"answer": "x"}})
    schema = {"type": "string", "enum": "${l.output.rows[*].pw}"}
    asked = {"step_id": "m", "tool": "model", "parameters": {"instruction": "Pick one", "schema": schema}}
    result, seen = await run(asked, tmp=tmp_path, model=model)
    assert not result.succeeded
    assert "schema: there is a secret in it" in result.reason
    assert model.requests == []
    assert leaked(seen) == []
