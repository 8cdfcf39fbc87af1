from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replan.core.references.refs import (
    Expression,
    Reference,
    escape,
    expressions,
    has_references,
    parse,
    references,
    whole,
    written_as_text,
)
from replan.core.references.resolve import resolve
from replan.errors import UnresolvedReference

OUTPUT = {
    "items": [{"id": 7, "name": "Ann"}, {"id": 8, "name": None}],
    "total": 2,
    "nothing": None,
    "empty": [],
    "odd key": {"a.b": "x"},
    "text": '{"inside": [1, 2]}',
    "hostile": "${step_2.output.secret} {{step_2.output}} $${x} {{{{y}}}}",
    "ok": True,
}
ACTIONS = {"action_1_1": {"x": 1}, "action_1_2": "two"}


def lookup(ref: Reference) -> tuple[Any, str]:
    known = {
        "step_1": OUTPUT,
        "step-2": "dash",
        "_s": 1,
        "metadata": {"project_id": "p1", "nested": {"a": 1}},
        "task": {"description": "Do it", "id": "task_1"},
        "item": {"x": 5},
        "index": 3,
    }
    if ref.action or ref.head in ACTIONS:
        return ACTIONS[ref.action or ref.head], f"the output of {ref.head!r}"
    return known[ref.head], f"the output of {ref.head!r}"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${step_1}", OUTPUT),
        ("${step_1.output}", OUTPUT),
        ("{{step_1.output}}", OUTPUT),
        ("{{step_1}}", OUTPUT),
        ("${step_1.outputs}", OUTPUT),
        ("${step_1.output.items[0].id}", 7),
        ("{{step_1.outputs.items[*].id}}", [7, 8]),
        ("${step_1.output.items[-1].id}", 8),
        ("${step_1.output.items[1].name}", None),
        ("${step_1.output.nothing}", None),
        ("${step_1.output.empty}", []),
        ("${step_1.output.empty[*].id}", []),
        ("${step_1.output.total}", 2),
        ("${step_1.output.ok}", True),
        ("${step_1.output.text.inside[1]}", 2),
        ('${step_1.output["odd key"]["a.b"]}', "x"),
        ("${step_1.output['odd key'].\"a.b\"}", "x"),
        ('${step_1.output."odd key"."a.b"}', "x"),
        ("${step_1.output.items[?name=='Ann'].id | [0]}", 7),
        ("${step_1.output.items[?name=='}'].id}", []),
        ("{{step_1.output.items[?name=='}}'].id}}", []),
        ("${step_1.output.{n: total, s: ok}}", {"n": 2, "s": True}),
        ("{{step_1.output.{n: total, m: {k: ok}}}}", {"n": 2, "m": {"k": True}}),
        ("${step_1.output.length(items)}", 2),
        ("${step_1.output | length(items)}", 2),
        ("${step_1.output.none || 'nobody'}", "nobody"),
        pytest.param("${length(step_1.output.items)}", 2, id="a function around the reference"),
        ("${ max_by(step_1.outputs.items, &id).name || 'none' }", "none"),
        ("{{join(', ', step_1.output.items[?id == `7`].name)}}", "Ann"),
        ("${contains(step_1.output.items[*].name, 'step_2.output')}", False),
        ("${keys(metadata.nested)}", ["a"]),
        ("${step_1.output.items[?name==`Ann`].id}", [7]),
        ("{{action_1_1.output}}", {"x": 1}),
        ("${action_1_1}", {"x": 1}),
        ("${step_1.actions.action_1_1.output.x}", 1),
        ("${step_1.actions.action_1_2}", "two"),
        ("${metadata.project_id}", "p1"),
        ("${metadata}", {"project_id": "p1", "nested": {"a": 1}}),
        ('${metadata["project_id"]}', "p1"),
        ("${task.description}", "Do it"),
        ("${task.id}", "task_1"),
        ("${item}", {"x": 5}),
        ("${item.x}", 5),
        ("${index}", 3),
        ("${step-2.output}", "dash"),
        ("${_s}", 1),
        ("${ step_1 . output . total }", 2),
        ("{{  step_1.output.total  }}", 2),
        ("${\n\tstep_1.output.total\n}", 2),
    ],
)
def test_every_form_keeps_the_type_of_what_it_means(written: str, value: Any) -> None:
    found = whole(written)
    assert found is not None
    assert found.problem == ""
    assert resolve(written, lookup) == value
    assert type(resolve(written, lookup)) is type(value)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("${step_1.output.total} of ${step_1.output.total}", "2 of 2"),
        ("${step_1.output.total}${step_1.output.total}", "22"),
        ("{{step_1.output.total}}+${index}", "2+3"),
        ("Hello ${step_1.output.items[0].name}!", "Hello Ann!"),
        ("null: ${step_1.output.nothing}", "null: null"),
        ("ok: ${step_1.output.ok}", "ok: true"),
        ("list: ${step_1.output.empty}", "list: []"),
        ("object: {{action_1_1.output}}", 'object: {"x": 1}'),
        (" ${index}", " 3"),
        ("$5 and $x and $ {a} and {b} and }}", "$5 and $x and $ {a} and {b} and }}"),
        ("budget is $100 or $1", "budget is $100 or $1"),
        ("$${step_1.output}", "${step_1.output}"),
        ("{{{{step_1.output}}}}", "{{step_1.output}}"),
        ("$$${x}", "$${x}"),
        ("a $${b} ${index} {{{{c}}}}", "a ${b} 3 {{c}}"),
        ("日本 ${index} 🙂", "日本 3 🙂"),
        ("", ""),
    ],
)
def test_inside_a_text_texts_go_in_as_they_are_and_all_else_as_json(written: str, text: str) -> None:
    assert resolve(written, lookup) == text


def test_any_depth_keys_and_several_per_text() -> None:
    deep: Any = "${index}"
    for _ in range(50):
        deep = {"a": [deep, "x"]}
    filled = resolve({"${metadata.project_id}": deep, "n": 1, "t": ("${index}",)}, lookup)
    at = filled["p1"]
    for _ in range(50):
        assert at["a"][1] == "x"
        at = at["a"][0]
    assert at == 3
    assert filled["t"] == [3]
    heads = sorted(
        ref.head for ref in references({"${metadata.a}": ["${index} ${item}", {"b": "${task.id}"}]})
    )
    assert heads == ["index", "item", "metadata", "task"]


def test_two_keys_that_come_out_alike_are_an_error_and_nothing_is_lost() -> None:
    with pytest.raises(UnresolvedReference, match="two keys come out as 'p1'"):
        resolve({"p1": 1, "${metadata.project_id}": 2}, lookup)


def test_what_is_put_in_is_never_scanned_again() -> None:
    hostile = OUTPUT["hostile"]
    assert resolve("${step_1.output.hostile}", lookup) == hostile
    assert resolve("say: ${step_1.output.hostile}!", lookup) == f"say: {hostile}!"
    assert resolve({"${step_1.output.hostile}": 1}, lookup) == {hostile: 1}


@given(st.text(alphabet="${}abstep_1.output\"'`\\", max_size=40))
def test_no_output_however_hostile_is_ever_read_as_a_reference(output: str) -> None:
    def said(ref: Reference) -> tuple[Any, str]:
        assert ref.head == "step_1"
        return output, "the output of 'step_1'"

    assert resolve("${step_1.output}", said) == output
    assert resolve("a${step_1.output}b{{step_1}}", said) == f"a{output}b{output}"


@given(st.text(alphabet="${}a \"'`\\.[]", max_size=30) | st.text())
@example("${{a}}")
@example("{{{{a}}}}}")
@example("$${")
@example("{{ {{b}} }} ${c")
def test_an_escaped_text_says_itself(text: str) -> None:
    written = escape(text)
    assert all(isinstance(piece, str) for piece in parse(written))
    assert "".join(str(piece) for piece in parse(written)) == text
    assert resolve({"k": [written]}, lookup) == {"k": [text]}


@given(st.text(alphabet="${}astep_1.output \"'`\\.[]*?=", max_size=60) | st.text())
def test_any_text_can_be_read_and_nothing_is_lost(text: str) -> None:
    pieces = parse(text)
    for piece in pieces:
        if isinstance(piece, Reference):
            assert piece.problem or piece.head
            assert piece.raw in text or piece.raw.endswith("…")
    if not has_references(text):
        assert "".join(str(piece) for piece in pieces) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_a_value_comes_through_a_whole_reference_unchanged_and_through_a_text_as_json(value: Any) -> None:
    def said(ref: Reference) -> tuple[Any, str]:
        return value, "the output of 's'"

    assert resolve("${s}", said) == value
    inside = resolve("x${s}", said)[1:]
    assert inside == value if isinstance(value, str) else json.loads(inside) == value


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("${step_1.output", "no closing braces"),
        ("a {{step_1.output} b", "no closing braces"),
        ("{{ x }", "write {{{{ for its braces"),
        ("${ x", "write $${ for its braces"),
        ("${}", "${} is no reference; if it is meant as text, write it as $${}"),
        ("{{}}", "write it as {{{{}}}}"),
        ("${1}", "is no reference"),
        ("${[a.output, b.output][]}", "put several into a list or object of JSON"),
        ("${{x: a.output, y: b.output}}", "put several into a list or object of JSON"),
        ("${-a}", "is no reference"),
        ("${шаг.output}", "is no reference; if it is meant as text, write it as $${шаг.output}"),
        ("${step_1é}", "an output is written ${step_1.output.é}"),
        ("${{step_1.output}}", "is no reference"),
        ("${step_1.result}", "an output is written ${step_1.output.result}"),
        ("${step_1[0]}", "an output is written ${step_1.output[0]}"),
        ("${step_1.outputx}", "an output is written ${step_1.output.outputx}"),
        ("${step_1.output x}", "an output is written"),
        ("${step-b.output * 2}", "to compute with it write an expression"),
        ("${step_1.output *2 +}", "to compute with it write an expression"),
        ("${step_1.output.price * 2 +}", "no JMESPath"),
        ("${step_1.output.}", "an output is written ${step_1.output}"),
        ("${step_1.actions}", "an output is written"),
        ("${step_1.output.a-b}", 'written in double quotes: "like-this"'),
        ("${step_1.output.items.0.id}", "an item of a list is written [0]"),
        ("${step_1.output..a}", "no JMESPath"),
        ('${step_1.output.items[?name=="Ann"]}', "a text is written in single quotes: 'Ann'"),
        ("${step_1.output.items[?id==true]}", "the value is written `true`"),
        ("${step_1.output.items[?id > 5]}", "a number to compare with is written in backticks: > `5`"),
        ("${step_1.output.size(@)}", "JMESPath has no function size()"),
        ("${step_1.output.length(@, @)}", "length() takes 1 arguments, not 2"),
        ("${step_1.output." + "a." * 2_000 + "a}", "at most 2000 are allowed"),
        ("${step_1.output." + "(" * 900 + ")" * 900 + "}", "nested too deep"),
        ("${env.HOME}", "the environment cannot be read from a plan"),
        ("${task}", "of the task there is ${task.description} and ${task.id}"),
        ("${task.secret}", "of the task there is"),
        ("${index.x}", "index is a number"),
        ("${metadata x}", "is no reference"),
    ],
)
def test_a_reference_that_cannot_be_used_says_why_and_what_would_be_right(written: str, says: str) -> None:
    problems = [ref.problem for ref in references(written)]
    assert len(problems) == 1
    assert says in problems[0]
    with pytest.raises(UnresolvedReference):
        resolve(written, lookup)


@pytest.mark.parametrize("raw", ["${step_9.output}", "{{step_9.output}}", "${a.b c}"])
def test_a_reference_written_as_text_is_that_text(raw: str) -> None:
    assert resolve(written_as_text(raw), lookup) == raw


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (
            "${step_1.output.hit}",
            "${step_1.output.hit} selects nothing in the output of 'step_1': there is no 'hit'; it has: items, total",
        ),
        ("${step_1.output.items[9]}", "there is no item [9] in a list of 2"),
        ("${step_1.output.nothing.x}", "'x' needs an object, and there is null"),
        ("${step_1.output.items.id}", "'id' needs an object, and there is a list"),
        ("${step_1.output.total[*]}", "needs a list, and there is a number"),
        ("${metadata.team}", "it has: project_id, nested"),
    ],
)
def test_a_path_that_selects_nothing_is_an_error_that_says_what_there_is(written: str, says: str) -> None:
    for text in (written, f"in a text: {written}"):
        with pytest.raises(UnresolvedReference) as caught:
            resolve(text, lookup)
        assert says in str(caught.value)


def test_a_text_with_an_escape_only_is_filled_in_but_refers_to_nothing() -> None:
    assert has_references({"a": ["$${x}"]})
    assert list(references({"a": ["$${x}"]})) == []
    assert whole("$${x}") is None
    assert not has_references({"a": [1, None, "plain $x {y}"]})


@pytest.mark.parametrize(
    "written",
    [
        "step_1.output * 2",
        "step_1.output + step_2.output",
        "step_1.output.price*1.19",
        "(item.total + 1) / 3",
        "index + 1",
        "upper(step_1.output.name)",
        "step_1.output.n > 3 ? 'a' : 'b'",
        "merge_by(step_1.output, step_2.output, 'id')",
    ],
)
def test_what_is_no_reference_and_can_be_worked_out_is_an_expression(written: str) -> None:
    (found,) = parse(f"${{{written}}}")
    (wanted,) = parse(f"${{= {written} }}")
    assert isinstance(found, Expression)
    assert isinstance(wanted, Expression)
    assert found.meaning(lambda ref: ref.raw) == wanted.meaning(lambda ref: ref.raw)
    assert found.changed(lambda raw: raw) == found.raw
    assert parse(f"{{{{{written}}}}}") == (found._replace(raw=f"{{{{{written}}}}}"),)


@pytest.mark.parametrize(
    "written",
    [
        "${a + b}",  # of another language's template
        "${a.name + '!'}",
        "${price * 2}",
        "${1 + 2}",
        "${step_1.output.unit-price}",
        "${step_1.output.x ?? 'none'}",
        "${step_1.output.x + }",
        "${step_1.output.a || 'none'}",  # JMESPath
        "${length(step_1.output)}",
    ],
)
def test_nothing_else_is_one(written: str) -> None:
    assert not list(expressions(written))


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (
            "${length(items)}",
            "refers to no output; a function comes after the output: ${step_1.output.items | length(@)}",
        ),
        ("${join(', ', [step_1.output.x, step-b.output])}", "looks at several outputs"),
        ("${size(step_1.output.items)}", "JMESPath has no function size()"),
    ],
)
def test_a_function_that_cannot_be_read_is_told_how_one_is_written(written: str, says: str) -> None:
    (ref,) = references(written)
    assert says in ref.problem


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("${a}" * 200, id="a large text named two hundred times in one text"),
        pytest.param({f"p{n}": "${a.output}" for n in range(200)}, id="or in two hundred parameters"),
        pytest.param(["${b.output | [@,@]" + " | [@,@]" * 20 + "}"], id="a list doubled twenty-one times"),
        pytest.param(
            {"x": ["${b.output | " + " | ".join(["join('', [to_string(@), to_string(@)])"] * 22) + "}"]},
            id="a text doubled",
        ),
    ],
)
def test_what_references_make_has_a_size(written: Any) -> None:
    values = {"a": "x" * 1_000_000, "b": ["y" * 100]}
    with pytest.raises(UnresolvedReference, match="is larger than"):
        resolve(written, lambda ref: (values[ref.head], f"the output of {ref.head!r}"))


def test_a_large_value_that_is_put_in_whole_once_costs_nothing() -> None:
    large = {"rows": [{"text": "x" * 1_000} for _ in range(30_000)]}
    found = resolve({"all": "${a}", "first": "${a.output.rows[0].text}"}, lambda ref: (large, "it"))
    assert found["all"] is large
    assert len(found["first"]) == 1_000


def test_a_reference_that_calculates_is_not_offered_as_text_nor_in_another_form() -> None:
    (found,) = references({"cents": "${step_1.output * 2}"})
    assert "$${" not in found.problem
    assert "an output is written" not in found.problem
