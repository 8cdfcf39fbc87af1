"""The examples with other frameworks: Replan with their tools, and Replan inside of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import inside_langgraph, inside_pydantic_ai, tools_of_others

pytestmark = pytest.mark.anyio


async def test_tools_of_three_frameworks_make_one_receipt(tmp_path: Path) -> None:
    result = await tools_of_others.buy("coffee", 2, db=tmp_path / "r.db")
    assert result.output == "coffee: 14.50 EUR"
    result = await tools_of_others.buy("coffee", 0, db=tmp_path / "r.db")
    assert result.failure is not None
    assert "count has to be 1 or more" in result.failure.reason


async def test_a_graph_pays_once_it_is_agreed_to(tmp_path: Path) -> None:
    asked, answer = await inside_langgraph.main("rent", agree=True, db=tmp_path / "r.db")
    assert asked["parameters"] == {"name": "rent", "euros": 900}
    assert answer == "paid 900 EUR for rent"
    _, failure = await inside_langgraph.main("power", agree=False, db=tmp_path / "s.db")
    assert "not this month" in failure


async def test_an_agent_lets_replan_do_the_work(tmp_path: Path) -> None:
    answer = await inside_pydantic_ai.ask("How many parts are there?", db=tmp_path / "r.db")
    assert answer == "There are 65 parts in all."
