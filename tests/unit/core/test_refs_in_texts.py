"""References as people and models write them inside longer texts, and what holds for every text and every value."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.references.refs import Reference, escape, has_references, references, whole
from replan.core.references.resolve import resolve
from replan.errors import UnresolvedReference

BOOK = {
    "id": 42,
    "title": "Война и мир",
    "price": 12.5,
    "in_stock": True,
    "note": None,
    "tags": ["novel", "日本", "🙂"],
    "none": [],
    "nothing": {},
    "author": {"first name": "Лев", "e.mail": "leo@example.org", "born": {"year": 1828}},
    "chapters": [{"n": 1, "name": "Anna's"}, {"n": 2, "name": 'The "end"'}, {"n": 3, "name": None}],
    "raw": '{"inner": {"list": [10, 20, 30]}}',
    "sql": "O'Brien; DROP TABLE users; --",
    "lines": "one\ntwo",
    "rtl": "שלום",
    "evil": "${price.output} {{price}} $${x} {{{{y}}}}",
    "big": 12345678901234567890,
    "tiny": 1e-7,
    "a-b": "dashed",
    "": "blank key",
    "}": "brace",
    'say "hi"': "quoted",
    "back\\slash": "bs",
}
KNOWN: dict[str, Any] = {
    "book": BOOK,
    "price": 5,
    "cur": "EUR",
    "items": [1, 2, 3],
    "step-2": "dash",
    "_": "low",
    "metadata": {"user": "Ann", "ids": [7, 8], "region": "eu-west"},
    "task": {"description": "Sell the book", "id": "task_9"},
    "item": {"sku": "A-1", "qty": 0},
    "index": 0,
}


def lookup(ref: Reference) -> tuple[Any, str]:
    value = KNOWN[ref.head]
    return (value[ref.action] if ref.action else value), f"the output of {ref.head!r}"


HAND_WRITTEN = {
    # prose
    "prose": ("Dear ${metadata.user}, “${book.output.title}” is here.", "Dear Ann, “Война и мир” is here."),
    "end of a sentence": ("It costs ${price}.", "It costs 5."),
    "in brackets": ("(${price}) [${price}] {${price}} <{{price}}>", "(5) [5] {5} <5>"),
    "in quotes": ("'${cur}' \"{{cur}}\" `${cur}`", "'EUR' \"EUR\" `EUR`"),
    "apostrophes around": ("it's ${metadata.user}'s and it's ${price}", "it's Ann's and it's 5"),
    "over two lines": ("first: ${\n  price\n}\nsecond: {{\tprice }}", "first: 5\nsecond: 5"),
    "lines of a value stay": ("> ${book.output.lines}", "> one\ntwo"),
    "the task itself": ("${task.description} (${task.id})", "Sell the book (task_9)"),
    "only spaces beside": (" ${price} ", " 5 "),
    "only a newline beside": ("${price}\n", "5\n"),
    # URLs, mail
    "URL": (
        "https://shop.example/${metadata.region}/books/{{book.output.id}}?q=%24{x}&n=$1#p${index}",
        "https://shop.example/eu-west/books/42?q=%24{x}&n=$1#p0",
    ),
    "URL with a port": ("http://{{cur}}:80${price}/", "http://EUR:805/"),
    "mail address": (
        'mailto:${book.output.author."e.mail"}?subject={{cur}}',
        "mailto:leo@example.org?subject=EUR",
    ),
    # SQL, shell, code
    "SQL": (
        "SELECT * FROM t WHERE id = ${book.output.id} AND j->>'$.a' = '${cur}' AND d = $1",
        "SELECT * FROM t WHERE id = 42 AND j->>'$.a' = 'EUR' AND d = $1",
    ),
    "SQL goes in as it is": ("name = '${book.output.sql}'", "name = 'O'Brien; DROP TABLE users; --'"),
    "SQL list": ("WHERE id IN (${metadata.ids[0]}, ${metadata.ids[1]})", "WHERE id IN (7, 8)"),
    "shell": (
        'for f in $(ls) $HOME "$@" $$ $?; do echo $${f%.txt} ${price}; done',
        'for f in $(ls) $HOME "$@" $$ $?; do echo ${f%.txt} 5; done',
    ),
    "shell default": ("echo $${NAME:-${cur}}", "echo ${NAME:-EUR}"),
    "a regular expression": (r"^\d{2,3}\.{{price}}$", r"^\d{2,3}\.5$"),
    "C": ("int a[${price}] = {{{{0}}}}; if (x) { y(); }", "int a[5] = {{0}}; if (x) { y(); }"),
    "a template string of JavaScript": ("`Hi $${name}, ${price}`", "`Hi ${name}, 5`"),
    "an f-string of Python": ('f"{{{{x}}}} {y} ${price}"', 'f"{{x}} {y} 5"'),
    "Jinja kept": (
        "{% if x %}{{{{ user.name }}}}{% endif %}${price}",
        "{% if x %}{{ user.name }}{% endif %}5",
    ),
    "LaTeX": (r"\frac{${price}}{2} $x$ \textbf{{{cur}}}", None),
    "LaTeX with spaces": (r"\frac{${price}}{2} $x$ \textbf{ {{cur}} }", r"\frac{5}{2} $x$ \textbf{ EUR }"),
    "CSS": ("a{color:red}b{width:${price}px}", "a{color:red}b{width:5px}"),
    "a comment sign": ("# ${price} // {{cur}} -- /* ${index} */", "# 5 // EUR -- /* 0 */"),
    # JSON and XML in a text
    "JSON": (
        '{"id": ${book.output.id}, "tags": ${book.output.tags}, "a": {"b": {"c": 1}}}',
        '{"id": 42, "tags": ["novel", "日本", "🙂"], "a": {"b": {"c": 1}}}',
    ),
    "JSON with texts": (
        '{"cur": "${cur}", "ok": {{book.output.in_stock}}, "no": ${book.output.note}}',
        '{"cur": "EUR", "ok": true, "no": null}',
    ),
    "XML": ("<a b='${price}'>{{cur}}</a>", "<a b='5'>EUR</a>"),
    # Markdown
    "table": (
        "| book | price |\n|---|---:|\n| ${book.output.title} | {{price}} ${cur} |",
        "| book | price |\n|---|---:|\n| Война и мир | 5 EUR |",
    ),
    "link and bold": ("**${cur}** [x](${book.output.id}) ![i]({{cur}})", "**EUR** [x](42) ![i](EUR)"),
    "code fence": ("```\n$${a}\n${price}\n```", "```\n${a}\n5\n```"),
    # writing systems
    "Chinese": ("价格：${price}元，书名《{{book.output.title}}》", "价格：5元，书名《Война и мир》"),
    "emoji around": ("🙂${price}👩‍👩‍👧{{cur}}🏳️‍🌈", "🙂5👩‍👩‍👧EUR🏳️‍🌈"),
    "right to left": ("מחיר: ${price} — ${book.output.rtl}!", "מחיר: 5 — שלום!"),
    "right-to-left marks": ("\u202e${price}\u202c\u200f", "\u202e5\u202c\u200f"),
    "combining": ("e\u0301${price}\u0301", "e\u03015\u0301"),
    "full-width signs are text": ("＄｛price｝ ｛｛price｝｝ ${price}", "＄｛price｝ ｛｛price｝｝ 5"),
    "NUL and control": ("\x00${price}\x1b[0m", "\x005\x1b[0m"),
    # prices and dollars
    "prices": ("$5, $5.00, US$5, 5$, $-5 and ${price}$", "$5, $5.00, US$5, 5$, $-5 and 5$"),
    "an escaped dollar reference": ("write $${price} for ${price}", "write ${price} for 5"),
    "a dollar before an escape": ("$$${price}", "$${price}"),
    "a dollar before a value": ("${price.output | join('', ['$', to_string(@)])}!", "$5!"),
    "dollars alone": ("$ $$ $$$ $x $1 ${price}", "$ $$ $$$ $x $1 5"),
    "half open": ("a { b } c }} d } $ { ${price}", "a { b } c }} d } $ { 5"),
    "escaped braces": ("{{{{price}}}} is {{price}}", "{{price}} is 5"),
    "escaped braces with an escape inside": ("{{{{ $${a} }}}}", "{{ ${a} }}"),
    "text in escaped braces is not read": ("{{{{ ${price} }}}} ${price}", "{{ ${price} }} 5"),
    # several, adjacent
    "adjacent": ("${price}${cur}{{price}}{{cur}}${index}", "5EUR5EUR0"),
    "adjacent to braces": ("{${price}}{ {{price}} }", "{5}{ 5 }"),
    "adjacent to the escape": ("${price}$${x}{{price}}{{{{y}}}}${price}", "5${x}5{{y}}5"),
    "the same thrice": ("${price}/${price}/${price}", "5/5/5"),
    "step with a dash, one letter": ("${step-2.output}${_}{{_.output}}", "dashlowlow"),
    # keys
    "a key with a space": ('by ${book.output.author."first name"}', "by Лев"),
    "keys in brackets": ("by ${book.output['author'][\"first name\"]}", "by Лев"),
    "a key with a dot": ("{{book.output.author['e.mail']}} ok", "leo@example.org ok"),
    "a key with a dash": ('x ${book.output."a-b"}', "x dashed"),
    "a blank key": ('x ${book.output.""}', "x blank key"),
    "a brace as a key": ('x ${book.output."}"} {{book.output."}"}} y', "x brace brace y"),
    "a key with quotes": (r'x ${book.output."say \"hi\""}', "x quoted"),
    "a key with a backslash": (r'x ${book.output."back\\slash"}', "x bs"),
    "three keys deep": ("since ${book.output.author.born.year}.", "since 1828."),
    # indexes and expressions
    "index": ("1: ${book.output.chapters[0].name}, 2: {{items.output[1]}}", "1: Anna's, 2: 2"),
    "negative index": ("last ${items.output[-1]} of ${metadata.ids[-2]}", "last 3 of 7"),
    "slice": ("all but one: ${items.output[1:]}", "all but one: [2, 3]"),
    "projection": ("n: ${book.output.chapters[*].n}", "n: [1, 2, 3]"),
    "filter with quotes": ("x ${book.output.chapters[?name=='The \"end\"'].n | [0]}", "x 2"),
    "filter with an escaped quote": (r"x ${book.output.chapters[?name=='Anna\'s'].n}", "x [1]"),
    "filter with a brace": ("x ${book.output.chapters[?name=='}'].n} y", "x [] y"),
    "number in backticks": ("x {{book.output.chapters[?n > `1`].n}} y", "x [2, 3] y"),
    "an object is built": ("x {{book.output.{i: id, c: {p: price}}}} y", 'x {"i": 42, "c": {"p": 12.5}} y'),
    "a default": ("x ${book.output.edition || 'first'} y", "x first y"),
    "JSON inside a text is read into": ("x ${book.output.raw.inner.list[2]} y", "x 30 y"),
    # values
    "float": ("${book.output.price} €", "12.5 €"),
    "a very large number": ("n=${book.output.big}", "n=12345678901234567890"),
    "a very small number": ("n=${book.output.tiny}", "n=1e-07"),
    "zero": ("qty ${item.qty}, index {{index}}", "qty 0, index 0"),
    "true": ("ok=${book.output.in_stock}", "ok=true"),
    "null": ("note=${book.output.note}", "note=null"),
    "empty list and object": ("${book.output.none}{{book.output.nothing}}", "[]{}"),
    "a list": ("tags: ${book.output.tags}", 'tags: ["novel", "日本", "🙂"]'),
    "an object": (
        "by {{book.output.author}}",
        'by {"first name": "Лев", "e.mail": "leo@example.org", "born": {"year": 1828}}',
    ),
    "text that looks like references": (
        "x ${book.output.evil} ${price}",
        "x ${price.output} {{price}} $${x} {{{{y}}}} 5",
    ),
    # spaces
    "spaces inside": ("${  book . output . author . born . year  }!", "1828!"),
    "outputs is output": ("{{ book.outputs.id }}!", "42!"),
    "an action": ("${book.actions.id.output}/{{ book . actions . price }}", "42/12.5"),
}


@pytest.mark.parametrize(
    ("written", "text"),
    [pytest.param(*case, id=name) for name, case in HAND_WRITTEN.items() if case[1] is not None],
)
def test_a_reference_inside_a_longer_text(written: str, text: str) -> None:
    assert resolve({"in": [written]}, lookup) == {"in": [text]}
    assert whole(written) is None


@pytest.mark.parametrize(
    ("written", "bad"),
    [
        (r"\textbf{{{cur}}}", "{{{cur}}}"),
        ("${{ secrets.KEY }} and more", "${{ secrets.KEY }}"),
        ("costs ${{price}}", "${{price}}"),
        ("${price} and ${price", "${price"),
        ("{{price}} and {{price", "{{price"),
        ("{{price} and }", "{{price} and }"),
        ("echo ${NAME:-x}", "${NAME:-x}"),
        ("echo ${#list[@]}", "${#list[@]}"),
        ("${book.output.${price}}", "${book.output.${price}}"),
        ("f{{}} and ${}", "{{}}"),
        ("a ${book.title} b", "${book.title}"),
        ("a ${books.output.id + } b", "${books.output.id + }"),
        ("${ёлка.output}", "${ёлка.output}"),
    ],
)
def test_what_is_no_reference_is_named_and_never_passed_on(written: str, bad: str) -> None:
    wrong = [ref for ref in references(written) if ref.problem]
    assert [ref.raw for ref in wrong][:1] == [bad]
    assert "as text, write" in wrong[0].problem or "JMESPath" in wrong[0].problem
    with pytest.raises(UnresolvedReference):
        resolve(written, lookup)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"""x ${s.output.rules[?if=='a > "b"'].n}""", "x [1]"),
        ("x ${s.output.rules[?if=='n == true'].n}", "x [2]"),
        ('x ${s.output."<".""}', "x y"),
    ],
)
def test_what_looks_like_a_comparison_in_quotes_is_text(written: str, value: str) -> None:
    output = {
        "rules": [{"if": 'a > "b"', "n": 1}, {"if": "n == true", "n": 2}],
        "<": {"": "y"},
    }
    assert resolve(written, lambda _: (output, "the output of 's'")) == value


# ── what holds for every text and every value ─────────────────────────────────

KEYS = st.text(max_size=8) | st.sampled_from(
    [
        "a",
        "a b",
        "a.b",
        "}",
        "}}",
        "{{x}}",
        "${x}",
        '"',
        "'",
        "`",
        "\\",
        "\\\\",
        '\\"',
        "0",
        "output",
        "é🙂",
        "\n",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.just("${s.output} {{s}} $${x} {{{{y}}}}")
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)
STEPS = st.lists(KEYS | st.integers(0, 3), min_size=1, max_size=6)


def planted(steps: list[Any], value: Any) -> Any:
    """A value that has `value` at the end of the way."""
    for step in reversed(steps):
        value = [None] * step + [value] if isinstance(step, int) else {"beside": 1, step: value}
    return value


def dotted(steps: list[Any]) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else "." + json.dumps(s) for s in steps)


def bracketed(steps: list[Any]) -> str:
    return "".join(
        f"[{s}]" if isinstance(s, int) else f"[{json.dumps(s, ensure_ascii=False)}]" for s in steps
    )


def alike(one: Any, other: Any) -> bool:
    """Equal in value and in type, all the way down: 1 is neither 1.0 nor true."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


@pytest.mark.parametrize("written", [dotted, bracketed])
@pytest.mark.parametrize("frame", ["${%s}", "{{%s}}", "${ %s }", "{{\n%s\t}}"])
@given(steps=STEPS, value=VALUES)
def test_a_reference_written_for_any_way_into_a_value_finds_what_lies_there(
    written: Callable[[list[Any]], str], frame: str, steps: list[Any], value: Any
) -> None:
    output = planted(steps, value)
    text = frame % ("s.output" + written(steps))

    def said(ref: Reference) -> tuple[Any, str]:
        assert (ref.head, ref.problem) == ("s", "")
        return output, "the output of 's'"

    assert alike(resolve(text, said), value)
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    assert resolve(f"a{text}b", said) == f"a{shown}b"


@given(value=VALUES, way=STEPS)
def test_a_whole_reference_keeps_its_type_however_deep_it_stands(value: Any, way: list[Any]) -> None:
    written = planted([escape(step) if isinstance(step, str) else step for step in way], "${s}")
    assert alike(resolve(written, lambda _: (value, "the output of 's'")), planted(way, value))


@given(st.lists(st.tuples(st.text(alphabet="ab \n{$}", max_size=4), LEAVES), max_size=5))
def test_what_is_put_in_is_never_read_again_and_the_text_around_it_stays(
    pieces: list[tuple[str, Any]],
) -> None:
    asked: list[int] = []

    def said(ref: Reference) -> tuple[Any, str]:
        asked.append(int(ref.path.strip('"')))
        return {str(at): value for at, (_, value) in enumerate(pieces)}, "the output of 's'"

    written = "|".join(escape(text) + "|${s.output." + f'"{at}"' + "}" for at, (text, _) in enumerate(pieces))
    told = "|".join(
        text + "|" + (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for text, value in pieces
    )
    assert resolve(written + "|", said) == told + "|"
    assert asked == list(range(len(pieces)))


@given(st.text(alphabet="${}a \"'`\\.|", max_size=30) | st.text())
@example("$")
@example("{")
@example("a{{b}}c${d}")
def test_an_escaped_text_says_itself_also_beside_references(text: str) -> None:
    written = "${price} " + escape(text) + " {{cur}}"
    assert resolve(written, lookup) == f"5 {text} EUR"
    assert [ref.head for ref in references(written)] == ["price", "cur"]


@given(st.text(alphabet="${}a \"'`\\.|", max_size=30))
def test_escaping_twice_is_undone_twice(text: str) -> None:
    assert resolve(resolve(escape(escape(text)), lookup), lookup) == text


@given(st.recursive(st.text(alphabet="${}ab ", max_size=8), lambda i: st.lists(i, max_size=3)), VALUES)
def test_a_value_without_marks_is_the_same_value_after_filling_in(written: Any, value: Any) -> None:
    for candidate in (written, value):
        if not has_references(candidate):
            assert alike(resolve(candidate, lookup), candidate)


# ── hostile texts and outputs ─────────────────────────────────────────────────

SIZE = 160_000
"""Characters of a hostile text. What grows with its square takes half a minute, what grows with it a fifth of a second."""


def of(unit: str, start: str = "", end: str = "") -> str:
    return start + unit * (SIZE // len(unit)) + end


HOSTILE = {
    "openings": of("${"),
    "openings apart": of("${ "),
    "braces apart": of("{{ "),
    "closings": of("}"),
    "escaped dollars": of("$${"),
    "escaped pairs": of("{{{{}}}}"),
    "half an opening": of("$ {"),
    "empty references": of("${}"),
    "references": of("${a}"),
    "braces closed by one": of("{{a} "),
    "deep inside one": of("{", "${a", "}" * SIZE),
    "many deep": of("${" + "{" * 50 + "}" * 50 + "} "),
    "quotes": of("\"'`", "${a"),
    "backslashes": of("\\", '${a"'),
    "a long name": of("x", "${", "}"),
    "a long path": of(".x", "${a.output", "}"),
    "many keys": of('["x"]', "${a.output", "}"),
    "spaces": of(" ", "${", "}"),
    "escaped openings never closed": of("{{{{"),
    "escaped openings apart": of("{{{{ x "),
    "escaped openings closed at the end": "{{{{" * (SIZE // 4) + "}}}}" * (SIZE // 4),
    "escaped quotes": of('\\"', "${a"),
    "escaped quotes of three kinds": of("\\\"\\'\\`", "${a"),
    "references with a lone quote": of("${a\\'} "),
    "a path of escaped quotes": of('\\"', '${a.output["', "}"),
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer of CPU time")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_read_in_time_that_grows_with_it(text: str) -> None:
    with cpu(3.0):
        found = list(references(text))
        assert all(ref.head or ref.problem for ref in found)
        with suppress(UnresolvedReference):
            resolve({"deep": [text]}, lambda _: (1, "the output of 'a'"))


@pytest.mark.parametrize("output", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_output_goes_in_as_it_is(output: str) -> None:
    def said(_: Reference) -> tuple[Any, str]:
        return {"x": output}, "the output of 's'"

    assert resolve("${s.output.x}", said) == output
    assert resolve("<${s.output.x}|{{s.output.x}}>", said) == f"<{output}|{output}>"


@pytest.mark.parametrize("depth", [10, 200, 900, 5_000, 100_000])
@pytest.mark.parametrize("ends", [("[", "]"), ('{"a":', "}"), ("[", ""), ('{"a":', "")])
def test_a_deep_text_of_json_is_read_into_or_refused_and_breaks_nothing(
    depth: int, ends: tuple[str, str]
) -> None:
    output = {"x": ends[0] * depth + "1" + ends[1] * depth}

    def said(_: Reference) -> tuple[Any, str]:
        return output, "the output of 's'"

    assert resolve("${s.output.x}", said) == output["x"]
    for path in ("x[0]", "x.a", "x | [0]", "x[]", "x.*", "x[*].a", "x || `1`", "to_string(x)", "keys(x)"):
        for text in ("${s.output.%s}", "in ${s.output.%s} text"):
            with suppress(UnresolvedReference):
                resolve(text % path, said)


def test_a_value_as_deep_as_outputs_may_be_comes_through() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"a": [deep]}
    filled = resolve(["${s}", "x${s}"], lambda _: (deep, "the output of 's'"))
    assert filled == [deep, "x" + json.dumps(deep)]
