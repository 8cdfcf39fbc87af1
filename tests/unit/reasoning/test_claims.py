"""What a judge says of effects that were not had is read in every form that says it, and in none that does not."""

from __future__ import annotations

from typing import Any

import pytest

from replan.core.evaluation.accounts import Claim
from replan.reasoning.evaluation.claims import names_in, read_claims
from replan.reasoning.prompting.ask import Violations

BOTH = {"p": Claim(("x", "y"))}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([{"step": "p", "made_good_by": ["x", "y"], "not_needed": None}], id="a list"),
        pytest.param([{"step": "p", "made_good_by": "x, y"}], id="a text of two"),
        pytest.param([{"step": "p", "made_good_by": "x and y"}], id="a text with and"),
        pytest.param([{"step": "p", "made_good_by": "steps x (Bob2), y (Cid2)"}], id="each with whom it is for"),
        pytest.param([{"step": "p", "made_good_by": "`x`; ${y.output}"}], id="as references"),
        pytest.param([{"step": "p", "made_good_by": '["x", "y"]'}], id="a list in a text"),
        pytest.param([{"step": "p", "made_good_by": [{"step": "x", "for": "Bob"}, {"step": "y", "for": "Cid"}]}], id="objects"),
        pytest.param([{"step": "p", "made_good_by": {"Bob": "x", "Cid": "y"}}], id="by what was missing"),
        pytest.param([{"step": "p", "made_good_by": "x"}, {"step": "p", "made_good_by": "y"}], id="two entries"),
        pytest.param([{"step": "p[0]", "made_good_by": "x"}, {"step": "p, item 2", "made_good_by": "y"}], id="an entry for an item"),
        pytest.param([{"step": "p", "item": 1, "made_good_by": "x"}, {"step": "p", "item": 2, "made_good_by": "y"}], id="numbered"),
        pytest.param([{"step": "p", "items": [{"item": 1, "made_good_by": "x"}, {"item": 2, "made_good_by": "y"}]}], id="item by item"),
        pytest.param({"step": "p", "madeGoodBy": ["x", "y"]}, id="one entry alone"),
        pytest.param({"p": {"made_good_by": ["x", "y"]}}, id="an object of steps"),
        pytest.param({"p": ["x", "y"]}, id="an object of names"),
        pytest.param({"p": "x, y"}, id="an object of texts"),
        pytest.param({"p": [{"made_good_by": "x"}, {"made_good_by": "y"}]}, id="an object of entries"),
    ],
)  # fmt: skip
def test_two_steps_may_be_named_for_what_one_step_lacks(said: Any) -> None:
    assert read_claims(said) == BOTH


def test_one_entry_may_speak_of_several_steps_and_several_of_one() -> None:
    one = [{"step": ["p", "q"], "made_good_by": "x", "in_one": "the batch holds both"}]
    claim = Claim(("x",), in_one="the batch holds both")
    assert read_claims(one) == {"p": claim, "q": claim}
    said = [
        {"step": "p", "made_good_by": "x"},
        {"step": "p", "made_good_by": None, "not_needed": "Cid has it"},
    ]
    assert read_claims(said) == {"p": Claim(("x",), "Cid has it")}


@pytest.mark.parametrize("nothing", [None, "", "none", "n/a", [], {}, False, ["none"], [None]])
def test_what_says_nothing_names_no_step(nothing: Any) -> None:
    assert names_in(nothing) == ()


@pytest.mark.parametrize("words", ["not x", "x or y", "the payment x", "x has paid it", "maybe x"])
def test_words_around_a_name_make_it_none(words: str) -> None:
    assert names_in(words) == (words,)


@pytest.mark.parametrize(
    "said", [None, "all is well", 7, ["p"], [["p"]], {"p": None}, {"p": 3}, [{"step": None}], {}]
)
def test_what_has_another_form_says_nothing(said: Any) -> None:
    assert not any(any(claim) for claim in read_claims(said).values())


def test_two_spellings_of_one_field_with_two_meanings_are_asked_about() -> None:
    with pytest.raises(Violations):
        read_claims([{"step": "p", "made_good_by": "x", "madeGoodBy": "y"}])


@pytest.mark.parametrize(
    "words",
    [
        *("yes", "nein", "否", "unknown", "needed", "No, it is still needed.", "Was it needed?", "I cannot tell."),
        *("It was needed.", "The payment is still outstanding.", "Doch, sie war nötig.", "仍然需要", "not possible"),
        *(["none"], True, {"needed": True}),
    ],
)  # fmt: skip
def test_what_is_no_reason_accounts_for_nothing(words: Any) -> None:
    assert read_claims([{"step": "p", "not_needed": words}]) == {"p": Claim()}


@pytest.mark.parametrize(
    "words",
    [
        *("Bob was paid in cash already.", "No payment was due any more.", "Not needed: he has left."),
        *("nobody asked for a mail", "Nicht nötig, Bob hat bar gezahlt.", "已用现金支付", "It is needed only if he orders."),
    ],
)  # fmt: skip
def test_a_reason_is_one_however_it_begins(words: str) -> None:
    said = {"p": Claim(not_needed=words)}
    assert read_claims([{"step": "p", "not_needed": words}]) == said
    assert read_claims([{"step": "p", "not_needed": [words]}]) == said


@pytest.mark.parametrize(
    "beside",
    [
        *({"made_good": False}, {"is_made_good": "no"}, {"status": "failed"}, {"verdict": "no"}, {"needed": True}),
        *({"confidence": 0}, {"still_needed": "yes"}, {"accounted": False}, {"error": "m was for Ann"}),
    ],
    ids=str,
)  # fmt: skip
def test_an_entry_that_something_beside_it_denies_accounts_for_nothing(beside: Any) -> None:
    assert read_claims([{"step": "p", "made_good_by": "m", **beside}]) == {"p": Claim()}


@pytest.mark.parametrize(
    "beside",
    [
        *({"needed": False}, {"status": "done"}, {"made_good": True}, {"reason": "the same"}, {"item": 1}),
        *({"partial": False}, {"confidence": 0.9}, {"effect": "pay Bob"}, {"amount": 0}, {"error": None}),
    ],
    ids=str,
)  # fmt: skip
def test_what_agrees_beside_an_entry_or_only_tells_takes_nothing_from_it(beside: Any) -> None:
    assert read_claims([{"step": "p", "made_good_by": "m", **beside}]) == {"p": Claim(("m",))}


@pytest.mark.parametrize("order", [1, -1])
def test_a_step_of_which_one_entry_says_that_nothing_stands_for_it_is_not_accounted_for(order: int) -> None:
    said = [{"step": "p", "made_good_by": "m"}, {"step": "p", "made_good_by": None, "not_needed": None}]
    assert read_claims(said[::order]) == {"p": Claim()}
