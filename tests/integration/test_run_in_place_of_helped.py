"""A remedy that is itself the effect of the failed step takes its place where it says so: that step does not run again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from run_tasks import Ran, plan, step
from test_run_still_due import Counter as Bank
from test_run_still_due import pays, told

MAIL = step("m", "open", "p")
NEVER = 99


def instead(one: dict[str, Any], *of: str) -> dict[str, Any]:
    return {**one, "instead_of": list(of)}


def run(
    bank: Bank, first: list[dict[str, Any]], *then: list[dict[str, Any]], step_id: str | None = "p"
) -> Ran:
    how = {} if step_id is None else {"step_id": step_id}
    return bank.run(plan(*first), [plan(*one) for one in then], "add_remediation_steps", **how)


REMEDIES = {
    "alone": [instead(pays("q", tool="wire"), "p")],
    "after what it needs": [step("o", "slow"), instead(pays("q", "o", tool="wire"), "p")],
    "as an item": [instead(pays("q", tool="wire", who="${item}", for_each='["Ann"]'), "p")],
    "which waits for the failed one": [instead(pays("q", "p", tool="wire"), "p")],
}


@pytest.mark.parametrize("remedy", REMEDIES)
def test_it_is_had_once_and_what_waited_for_the_failed_one_comes_after_it(remedy: str) -> None:
    bank = Bank(NEVER)
    ran = run(bank, [pays("p"), MAIL], REMEDIES[remedy])
    assert not told(ran)
    assert ran.result.is_success
    assert bank.paid == ["Ann"]
    assert ran.statuses() == dict.fromkeys(ran.statuses(), "succeeded")
    assert ran.order("step_completed").index("q") < ran.order("step_completed").index("m")
    assert "p" not in ran.statuses()


def test_who_leaves_it_out_is_told_the_word_and_who_says_it_succeeds() -> None:
    bank = Bank(NEVER)
    plain = pays("q", tool="wire")
    ran = run(bank, [pays("p"), MAIL], [plain], [instead(plain, "p")])
    assert 'say `instead_of: ["p"]` on it' in told(ran)[0]
    assert ran.result.is_success
    assert bank.paid == ["Ann"]
    nothing = run(Bank(NEVER), [pays("p"), MAIL], [], [instead(plain, "p")])
    assert "in its place says `instead_of`" in told(nothing)[0]
    assert nothing.result.is_success


def test_a_list_goes_on_with_what_it_lacks_in_one_step() -> None:
    bank = Bank(0)
    bank.pay = lambda parameters: 1 / 0 if parameters["to"] == "Bob" else bank.wire(parameters)  # type: ignore[method-assign]
    first = [pays("p", who="${item}", for_each='["Ann", "Bob"]'), MAIL]
    ran = run(bank, first, [instead(pays("q", who="Bob", tool="wire"), "p")])
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(["Ann", "Bob"])


def test_of_several_failed_steps_only_that_one_is_left_out() -> None:
    bank = Bank(2)
    first = [pays("p"), pays("p2", who="Bob"), step("m", "slow", "p", "p2")]
    ran = run(bank, first, [step("o", "open"), instead(pays("q", tool="wire"), "p")], step_id=None)
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(["Ann", "Bob"])
    assert "p" not in ran.statuses()
    assert ran.order("step_completed").index("o") < ran.order("step_completed").index("p2")


@pytest.mark.parametrize(
    ("first", "then", "wrong"),
    [
        ([pays("p"), step("m", "who", parameters={"n": "${p.output.id}"})], [instead(pays("q", tool="wire"), "p")], "step 'm' needs the output of 'p'"),
        ([pays("p"), step("m", "slow", "p", when="p.output.id > `0`")], [instead(pays("q", tool="wire"), "p")], "step 'm' needs the output of 'p'"),
        ([pays("p")], [step("o", "slow"), pays("p", "o"), instead(pays("q", tool="wire"), "p")], "step 'p' is written again"),
    ],
    ids=["it is referred to", "a condition goes by it", "it is written again"],
)  # fmt: skip
def test_no_step_takes_a_place_that_is_needed(first: list[Any], then: list[Any], wrong: str) -> None:
    bank = Bank(1)
    ran = run(bank, first, then, [step("o", "open")])
    assert wrong in told(ran)[0]
    assert ran.result.is_success
    assert bank.paid == ["Ann"]


def test_where_its_output_is_needed_the_word_is_not_offered() -> None:
    bank = Bank(1)
    first = [pays("p"), step("m", "who", parameters={"n": "${p.output.id}"})]
    ran = run(bank, first, [pays("q", tool="wire")], [step("o", "open")])
    assert "instead_of" not in told(ran)[0]
    assert ran.result.is_success


@pytest.mark.parametrize(
    "other",
    [instead(pays("q", who="Bob", tool="upay"), "p"), instead(step("q", "open"), "p"), instead(step("q", "slow"), "p")],
    ids=["another tool for another", "another effect", "a reading"],
)  # fmt: skip
def test_what_has_another_effect_makes_nothing_good(other: dict[str, Any]) -> None:
    bank = Bank(1)
    ran = run(bank, [pays("p"), MAIL], [other])
    assert not ran.result.is_success
    assert "Ann" not in bank.paid


def test_a_yes_that_the_failed_step_asks_for_is_asked_for_in_its_place() -> None:
    bank = Bank(NEVER)
    ran = run(bank, [pays("p", requires_approval=True), MAIL], [instead(pays("q", tool="wire"), "p")])
    assert bank.paid == []
    assert not ran.result.is_success
