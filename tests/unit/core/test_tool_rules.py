"""What a user decides about tools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.tools.rules import (
    Named,
    Rate,
    ToolRule,
    ToolRules,
    admits,
    applied,
    read_rate,
    rule_of,
    unused,
)
from replan.core.types import ToolSpec

MAIL = Named("mail.send", "mail", "send")


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/second", Rate(10, 1)),
        ("10/s", Rate(10, 1)),
        ("60 per minute", Rate(60, 60)),
        ("5/10s", Rate(5, 10)),
        ("1000/2 hours", Rate(1000, 7200)),
        ("1/0.5s", Rate(1, 0.5)),
        ("7 / Day", Rate(7, 86_400)),
    ],
)
def test_rates_are_read(text: str, rate: Rate) -> None:
    assert read_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["", "10", "0/s", "ten/second", "10/fortnight", "10/0s", "-1/s", "1/s/s", "1/ms", "1/hs"]
)
def test_what_is_no_rate_is_told_with_one_that_is(text: str) -> None:
    with pytest.raises(ValueError, match="10/second"):
        read_rate(text)


@given(st.text(max_size=20))
def test_any_text_is_a_rate_or_a_value_error(text: str) -> None:
    try:
        rate = read_rate(text)
    except ValueError:
        return
    assert rate.calls >= 1
    assert rate.secs > 0


@pytest.mark.parametrize(
    ("allow", "deny", "expected"),
    [
        ((), (), True),
        (("mail.*",), (), True),
        (("send",), (), True),
        (("read*",), (), False),
        ((), ("s?nd",), False),
        (("mail.send",), ("mail.*",), False),
    ],
)
def test_what_is_denied_is_out_and_what_is_allowed_is_all_there_is(
    allow: tuple[str, ...], deny: tuple[str, ...], expected: bool
) -> None:
    assert admits(ToolRules(allow=allow, deny=deny), MAIL) is expected


def test_later_rules_lie_over_earlier_ones_key_by_key() -> None:
    rules = ToolRules(
        rules=(
            ("*", ToolRule(timeout_secs=5, effect="once")),
            ("mail.*", ToolRule(effect="repeatable", rate="1/s")),
            ("other", ToolRule(volatile=True)),
        )
    )
    rule = rule_of(rules, MAIL)
    assert rule == ToolRule(timeout_secs=5, effect="repeatable", rate="1/s")
    spec = ToolSpec(id="mail.send", effect="reads", honours_key=True)
    assert applied(rule, spec) == spec.model_copy(update={"timeout_secs": 5, "effect": "repeatable"})
    assert rule_of(ToolRules(rules=(("x", ToolRule()),)), MAIL) is None


def test_patterns_that_fit_nothing_are_found() -> None:
    rules = ToolRules(allow=("mail.*",), deny=("sned",), rules=(("read", ToolRule()), ("send", ToolRule())))
    assert unused(rules, [MAIL]) == ["sned", "read"]
