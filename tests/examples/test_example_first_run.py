"""The first run: its tools are real, its answer is computed again, and recorded runs of the real model are right."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import urllib.error
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from examples.first_run import tools
from examples.first_run.check import answer_from_data, check
from examples.record import FIRST_RUN, RECORDINGS

from replan import Record, Replan
from replan.core.references.refs import references
from replan.core.types import Plan
from replan.errors import PlanInvalid

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "examples" / "first_run" / "tools.py"


def first_run(*arguments: str, db: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.first_run", "--db", f"sqlite:///{db}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


# ── the answer of the real model ──────────────────────────────────────────────


def test_the_command_prints_the_answer_and_a_line_for_each_value_that_equals_the_data(tmp_path: Path) -> None:
    done = first_run("--replay", str(RECORDINGS / "first_run.jsonl"), db=tmp_path / "replan.db")
    assert done.returncode == 0, done.stderr
    expected = answer_from_data()
    assert all(value.right for value in check(done.stdout, expected))
    assert done.stdout.count("equals the data") == len(expected)
    [entry] = (tmp_path / "logbook.md").read_text(encoding="utf-8").splitlines()
    assert all(value.right for value in check(entry, expected)), entry


@pytest.mark.parametrize("name", FIRST_RUN)
async def test_however_it_is_said_the_plan_is_parallel_and_the_answer_right(
    name: str, tmp_path: Path
) -> None:
    recording = RECORDINGS / f"{name}.jsonl"
    async with Replan(tools=[str(TOOLS)], replay=recording, db=tmp_path / "replan.db") as replan:
        result = await replan.run(FIRST_RUN[name])
        log = await replan.history(result.task_id)
    assert result.succeeded, result.failure
    assert [str(value) for value in check(result.output, answer_from_data()) if not value.right] == []
    plan: Plan = next(record.event.plan for record in log if record.type == "plan_generated")  # type: ignore[union-attr]
    assert 4 <= len(plan.steps) <= 6
    assert sum(bool(list(references(step.parameters))) for step in plan.steps) >= 3
    assert most_at_once(log) >= 3
    assert result.usage.llm_calls <= 4


def most_at_once(log: list[Record]) -> int:
    """How many steps ran at the same time."""
    running, most = 0, 0
    for record in log:
        running += (record.type == "step_started") - (record.type == "step_completed")
        most = max(most, running)
    return most


@pytest.mark.live
@pytest.mark.prove  # a minute of two cores; `tests/contract/test_model.py` asks the same model for less
def test_the_built_in_model_answers_it_now(tmp_path: Path) -> None:
    from replan.llm.local.weights import find

    if find() is None:
        pytest.skip("the weights of the built-in model are not here: `replan model pull` gets them")
    done = first_run(db=tmp_path / "replan.db")
    assert done.returncode == 0, done.stdout + done.stderr


# ── the check ─────────────────────────────────────────────────────────────────

EXPECTED = {"revenue": Decimal("1234.50"), "difference": Decimal("50.00")}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        pytest.param("1,234.50 EUR, 50 above", [True, True], id="separators and whole numbers"),
        pytest.param("€1234.5 and +50.0", [True, True], id="signs and other spellings"),
        pytest.param("-50.00 to the target of 1,234.50.", [True, True], id="a full stop is no decimal point"),
        pytest.param("1,234.51 EUR, 50.01 above", [False, False], id="a cent is a difference"),
        pytest.param("11,234.50 EUR, 150 above", [False, False], id="a part of a number is none"),
        pytest.param({"revenue": 1234.5}, [True, False], id="an object"),
        pytest.param("It went well.", [False, False], id="no number"),
    ],
)
def test_an_answer_is_right_if_it_says_each_number(answer: object, right: list[bool]) -> None:
    assert [value.right for value in check(answer, EXPECTED)] == right


# ── the tools ─────────────────────────────────────────────────────────────────


def test_the_tools_and_the_check_compute_the_same_in_different_ways() -> None:
    revenue = tools.sales("2025-03").revenue_eur
    compared = tools.compare(revenue, tools.sales_target("2025-03").target_eur)
    dollars = tools.convert(revenue, tools.exchange_rate("USD").rate)
    expected = answer_from_data()
    assert all(value.right for value in check(f"{revenue}, {compared}, {dollars}", expected))
    assert compared.endswith("EUR above the target")
    assert tools.compare(2000, 2900.5) == "900.50 EUR below the target"


async def test_a_plan_that_converts_the_comparison_is_refused_before_anything_runs(tmp_path: Path) -> None:
    numbers = {"revenue_eur": 3000, "target_eur": 2900}
    wrong = {
        "steps": [
            {"step_id": "a", "tool": "compare", "parameters": numbers},
            {"step_id": "b", "tool": "convert", "parameters": {"revenue_eur": "${a.output}", "rate": 1.1}},
        ]
    }
    async with Replan(tools=[str(TOOLS)], db=tmp_path / "replan.db") as replan:
        with pytest.raises(PlanInvalid, match=r"step 'b'.*revenue_eur"):
            await replan.plan("?", plan=wrong)


def test_refunded_orders_do_not_count() -> None:
    with closing(tools.database()) as db:
        sql = "SELECT TOTAL(quantity * unit_price_eur) FROM orders WHERE day LIKE '2025-03%'"
        [everything] = db.execute(sql).fetchone()
    assert 0 < tools.sales("2025-03").revenue_eur < everything


def test_the_data_cannot_be_changed_by_a_query() -> None:
    with closing(tools.database()) as db, pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM orders")


def test_the_rates_come_over_http_and_an_unknown_currency_is_refused() -> None:
    assert tools.rate_service().startswith("http://127.0.0.1:")
    assert tools.exchange_rate("NOK").rate == 11.413
    with pytest.raises(urllib.error.HTTPError, match="404"):
        tools.exchange_rate("XXX")  # type: ignore[arg-type]


def test_each_entry_is_a_line_of_its_own(tmp_path: Path) -> None:
    tools.write_logbook("first\nin two lines")
    tools.write_logbook("second ☕")
    assert (tmp_path / "logbook.md").read_text(encoding="utf-8") == "- first in two lines\n- second ☕\n"


async def test_effects_are_declared_as_they_are(tmp_path: Path) -> None:
    async with Replan(tools=[str(TOOLS)], db=tmp_path / "replan.db") as replan:
        effects = {tool.id: tool.effect for tool in await replan.tools()}
        assert not replan.tool_problems
    assert effects.pop("write_logbook") == "once"
    assert set(effects.values()) == {"reads"}
