from __future__ import annotations

import contextlib
import json
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counting import calls_in
from replan.core.data.read_json import MAX_BEGINNINGS, MAX_CHARS, Unreadable, candidates, read_json

PLAN = {
    "steps": [{"step_id": "step_1", "parameters": {"q": "a } b ] c", "n": 1.5}}],
    "ok": True,
    "none": None,
}
TEXT = json.dumps(PLAN)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT, id="plain"),
        pytest.param(f"\ufeff{TEXT}\n", id="byte order mark"),
        pytest.param(f"```json\n{TEXT}\n```", id="fenced"),
        pytest.param(f"```\n{TEXT}\n```\nIs that all right?", id="fenced without a language, prose after"),
        pytest.param(f"Sure! Here is the plan:\n\n{TEXT}\n\nLet me know.", id="prose around"),
        pytest.param(f"I fill {{like this}} and [so].\n{TEXT}", id="prose with brackets that are no JSON"),
        pytest.param(f'<think>maybe {{"steps": []}} or so</think>\n{TEXT}', id="after thoughts"),
        pytest.param(f'maybe {{"steps": []}} or so</think>\n{TEXT}', id="after thoughts that only end"),
        pytest.param(f"<thought>a {{x}}</thought>{TEXT}", id="after thoughts of another name"),
        pytest.param(f"<think>a</think>then {{'b': 1}}</think>\n\n```json\n{TEXT}\n```", id="thoughts twice"),
        pytest.param(
            f"<|channel|>analysis<|message|>{{}} or {{'a': 1}}<|end|><|start|>assistant"
            f"<|channel|>final<|message|>{TEXT}<|return|>",
            id="after a channel of thoughts",
        ),
        pytest.param(f"<|channel>thought\nfirst {{'a': 1}}<channel|>{TEXT}", id="after another channel"),
        pytest.param(f"analysisfirst {{'a': 1}}assistantfinal{TEXT}", id="after a channel without its marks"),
        pytest.param(f"[THINK]is it {{'a': 1}}?[/THINK]{TEXT}", id="after thoughts in square brackets"),
        pytest.param(f"<think>{TEXT}", id="thoughts that never end"),
        pytest.param(TEXT.replace("}]", "},]").replace("1.5}", "1.5,}"), id="trailing commas"),
        pytest.param(TEXT.replace("true", "True").replace("null", "None"), id="python words"),
        pytest.param(repr(PLAN), id="python literals"),
        pytest.param(TEXT.replace('"ok"', '/* well */ "ok"').replace("[{", "[ // steps\n{"), id="comments"),
        pytest.param(TEXT + TEXT, id="twice"),
        pytest.param(f"{TEXT}\nOnce more:\n```json\n{TEXT}```", id="twice, the second fenced"),
        pytest.param(json.dumps(TEXT), id="in a JSON string"),
        pytest.param(f"```json\n{json.dumps(TEXT)}\n```", id="in a fenced JSON string"),
        pytest.param(TEXT[:-1], id="the last bracket missing"),
        pytest.param("{}\n" + TEXT, id="an empty object before"),
    ],
)
def test_an_answer_is_read_whatever_is_around_it(text: str) -> None:
    assert read_json(text) == PLAN


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "empty", id="nothing"),
        pytest.param(" \ufeff\n", "empty", id="blank"),
        pytest.param("I cannot help with that.", "no JSON object", id="a refusal"),
        pytest.param(
            '{"steps": [{"step_id": "step_1"}', "cut off: a list is not closed", id="cut between items"
        ),
        pytest.param('{"steps": [{"step_id": "ste', "cut off: a text is not closed", id="cut inside a text"),
        pytest.param('{"limit": 12', "cut off: the last number", id="cut inside a number"),
        pytest.param('{"limit": ', "cut off: a value is missing", id="cut before a value"),
        pytest.param('{"a": 1, "b', "cut off", id="cut inside a key"),
        pytest.param('{"a": 1, "a": 2}', "'a' is given twice", id="a key twice"),
        pytest.param("{'a': 1, 'a': True}", "'a' is given twice", id="1 and true are two values"),
        pytest.param('{"a": 1}{"a": 2}', "2 different JSON values", id="two answers"),
        pytest.param(r'{"path": "C:\data", "n": 1,}', r"\d is no escape", id="an unknown escape"),
        pytest.param('{"a": 1 "b": 2}', '"," or "}" is wanted at line 1, column 9', id="a comma missing"),
        pytest.param('{"a": NaN}', "a value is wanted", id="not a number"),
        pytest.param('{"a": 1e999}', "too large", id="an endless number"),
        pytest.param(r'{"a": "\ud83d"}', "half a character", id="half an emoji"),
        pytest.param('{"a": ' + "[" * 5000, "cut off|deep", id="very deep"),
        pytest.param('{"a": ' + "[" * 500 + "]" * 500 + ",}", "nested deeper", id="deep and untidy"),
    ],
)
def test_what_would_have_to_be_guessed_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(Unreadable, match=says.replace("\\", r"\\")):
        read_json(text)


def test_a_step_inside_a_broken_plan_is_not_taken_for_the_answer() -> None:
    with pytest.raises(Unreadable, match="is wanted"):
        candidates('{"steps": [{"step_id": "a" "tool": "x"}, {"step_id": "b", "tool": "y"}]}')


def test_an_answer_without_end_is_refused() -> None:
    with pytest.raises(Unreadable, match="too long"):
        read_json("[" + " " * MAX_CHARS)


def test_many_brackets_in_prose_take_no_long_time() -> None:
    with pytest.raises(Unreadable):
        read_json("{ [ " * 50_000)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ROOTS = st.dictionaries(st.text(), VALUES, min_size=1, max_size=4)
NOISE = st.sampled_from(["prose", "fence", "twice", "string", "open"])
PROSE = st.text(alphabet=st.characters(exclude_characters="{}[]\"'<", exclude_categories=["Cs"]), max_size=30)


def _untidy(value: Any, chance: Random) -> str:
    """The value as JSON with trailing commas, comments, Python words, single quotes and free white space."""
    gap = chance.choice(["", " ", "\n  ", "\t", " // note\n", "/* note */", "\u00a0"])
    comma = chance.choice(["", ",", " ,"])
    if isinstance(value, dict):
        pairs = [
            f"{gap}{_quoted(key, chance)}{gap}:{gap}{_untidy(item, chance)}" for key, item in value.items()
        ]
        return "{" + ",".join(pairs) + (comma if pairs else "") + gap + "}"
    if isinstance(value, list):
        items = [f"{gap}{_untidy(item, chance)}{gap}" for item in value]
        return "[" + ",".join(items) + (comma if items else "") + gap + "]"
    if isinstance(value, str):
        return _quoted(value, chance)
    if value is None or isinstance(value, bool):
        return chance.choice([json.dumps(value), str(value)])
    return json.dumps(value)


def _quoted(text: str, chance: Random) -> str:
    plain = json.dumps(text, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.5:
        return "'" + plain[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    return plain


@settings(deadline=None)
@given(value=ROOTS, before=PROSE, after=PROSE, seed=st.integers(), noise=NOISE)
def test_any_object_comes_back_equal_out_of_any_noise(
    value: Any, before: str, after: str, seed: int, noise: str
) -> None:
    chance = Random(seed)
    text = _untidy(value, chance)
    match noise:
        case "prose":
            text = f"\ufeff{before}\n{text}\n{after}"
        case "fence":
            text = f"{before}\n```json\n{text}\n```\n{after}"
        case "twice":
            text = f"{before}\n{text}\n{_untidy(value, chance)}"
        case "string":
            text = json.dumps(text)
        case "open":
            # only the last bracket is missing, and the end is no number that could go on
            text = json.dumps({**value, "end": "x"})[:-1]
            value = {**value, "end": "x"}
    found = read_json(text)
    assert found == value
    assert json.dumps(found) == json.dumps(value)


@given(value=VALUES)
def test_plain_json_comes_back_equal(value: Any) -> None:
    if not (isinstance(value, str) and value.strip()[:1] in ("{", "[")):
        assert json.dumps(read_json(json.dumps(value))) == json.dumps(value)


@given(st.text(alphabet="{}[]\",:'\\ tn1`", max_size=40))
def test_nothing_but_unreadable_is_ever_raised(text: str) -> None:
    with suppress(Unreadable):
        candidates(text)


def test_a_mark_of_thoughts_inside_an_answer_is_text() -> None:
    for text in ('{"a": "x</think>{y}", "b": [1]}', '```json\n{"a": "x</think>{y}", "b": [1]}\n```'):
        assert read_json(text) == {"a": "x</think>{y}", "b": [1]}


@given(st.text(max_size=60), st.sampled_from(["</think>", "</Thought>", "<|message|>", "[/THINK]"]))
def test_whatever_is_thought_the_answer_behind_it_is_read(thoughts: str, end: str) -> None:
    assert read_json(f"{thoughts}{end}\n{TEXT}") == PLAN


def test_a_broken_answer_is_told_from_none() -> None:
    for text, begun in (("", False), ("No.", False), ('{"a": 1, "b', True), ('Well: {"a": [2', True)):
        with pytest.raises(Unreadable) as caught:
            candidates(text)
        assert caught.value.begun is begun


@pytest.mark.parametrize("middle", [" ", "\n", " `", "\t``"])
def test_a_long_gap_in_an_answer_is_read_once(middle: str) -> None:
    """A million signs: read anew from each of them it would take minutes."""
    with pytest.raises(Unreadable):
        candidates("a" + middle * (1_000_000 // len(middle)) + "b")


@pytest.mark.parametrize("sign", ['{"', "{'", '{"a": ', '{"a": 1} ', "{} ", "[[1] ", "{/**/ "])
def test_an_answer_of_nothing_but_beginnings_is_refused_after_a_bounded_number_of_them(sign: str) -> None:
    """Ten times as much text takes no longer: what stands behind the bound is not read."""
    with pytest.raises(Unreadable) as refused:
        candidates(sign * MAX_BEGINNINGS * 2 + '{"b": 2}')
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("sign", ["[so] ", "{", "{{", "[x] ", "{x} ", "{1} ", "{-"])
def test_an_answer_behind_any_number_of_brackets_that_begin_nothing_is_read(sign: str) -> None:
    assert read_json(sign * MAX_BEGINNINGS * 3 + "\n" + TEXT) == PLAN


@pytest.mark.parametrize(
    "sign", ['{"', "{/*", "{'\"", "[[{", "{} ", "{//", '{"a" ', "[-", "[t", "{ ", '{"a": 1} ']
)
def test_an_answer_that_says_nothing_is_not_gone_through_bracket_by_bracket(sign: str) -> None:
    def read(size: int) -> None:
        with contextlib.suppress(Unreadable):
            candidates(sign * (size // len(sign)) + "*/")

    assert calls_in(lambda: read(600_000)) < 1.1 * calls_in(lambda: read(60_000)) + 2_000


@pytest.mark.parametrize(
    "end",
    ["</think>", "</THINKING >", "[/THINK]", "\u25c1/think\u25b7", "<|END_THINKING|>", "AssistantFinal"],
)
def test_the_end_of_thoughts_is_found_in_any_spelling(end: str) -> None:
    assert read_json('perhaps {"steps": 1} or not ' + end + TEXT) == PLAN
