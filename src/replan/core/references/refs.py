"""References in parameters: how they are written and what they point to; `core.references.resolve` fills them in.

Grammar (specification §4.3): `${HEAD…}` and `{{HEAD…}}` refer; `$${` and `{{{{…}}}}` are literal text.
HEAD is a step id, an action id, `metadata`, `task`, `item` or `index`; what follows is `.output` and a
JMESPath. `${= … }` is an expression (`core.references.expressions`). Of a task that this one follows it is `previous.STEP`, `previous.STEP.parameters` or `previous.result`
(`previous_2` of the one before that, and so on). Text is scanned once: what is put in is never scanned again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from replan.core.references.braces import closing, in_braces, in_filters, in_quotes, replaced
from replan.core.references.paths import MAX_LENGTH, check_path, quote_keys
from replan.core.references.trees import braces_at_root, parsed
from replan.core.texts_as_json import read_text
from replan.core.walk import every

if TYPE_CHECKING:
    from replan.core.references.expressions.grammar import Node

ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
RESERVED = frozenset({"metadata", "task", "item", "index", "env"})
WORDS = ("metadata", "task", "item", "index")
_FOLLOWED = r"previous(?:_[1-9][0-9]?)?"
FOLLOWED = re.compile(_FOLLOWED)
"""A task that this one follows, as references name it."""
RESULT, PARAMETERS = "result", "parameters"
"""What there is of such a task beside the outputs of its steps: its answer, and what a step has called its tool with."""
NOT_OF_FOLLOWED = frozenset({"output", "outputs", "actions", RESULT})
"""Names that no step of it can be referred to by: a step of this task may be called `previous`, too."""


class Reference(NamedTuple):
    """One reference in a text."""

    raw: str
    """As written, with its braces."""
    head: str
    """Of a task that this one follows with what is meant of it: `previous.step_1`. No id has a dot."""
    action: str | None
    """The action, for `step.actions.ACTION…`."""
    path: str
    """JMESPath into what the head names; empty for the whole."""
    problem: str = ""
    """Why it cannot be used, if so."""
    computed: bool = False
    """It is a part of an expression or of another path: what it gives is worked with, and is not what is put in."""
    within: tuple[Reference, ...] = ()
    """The references in its path, which are values there."""


class Expression(NamedTuple):
    """`${= … }`: what is worked out of what references give (`core.references.expressions`)."""

    raw: str
    """As written, with its braces."""
    references: tuple[Reference, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    """Where in `raw` they stand."""
    tree: Node | None = None
    problem: str = ""
    """Why it cannot be used, if so."""

    def meaning(self, of: Callable[[Reference], str]) -> str:
        """The same for all that are worked out alike, however they are spaced, with `of` for the references."""
        if self.tree is None:
            return self.raw
        from replan.core.references.expressions.grammar import told

        return f"${{= {told(self.tree, [of(_told(ref, of)) for ref in self.references])}}}"

    def changed(self, of: Callable[[str], str]) -> str:
        """As it is written, with `of` made of each reference, which it gets in braces."""
        out, at = "", 0
        for (begin, end), ref in zip(self.places, self.references, strict=True):
            made = of(ref.raw)
            out += self.raw[at:begin] + (made[2:-1] if made.startswith("${") and made.endswith("}") else made)
            at = end
        return out + self.raw[at:]


Segment = str | Reference | Expression


# ── reading ───────────────────────────────────────────────────────────────────


def parse(text: str) -> tuple[Segment, ...]:
    """The text cut into literal pieces and references, in order."""
    if is_plain(text):
        return (text,) if text else ()
    return _parsed(text) if len(text) <= _MOST_KEPT else _read(text)


_MOST_KEPT = 300
"""Characters of a text whose parts are kept: longer ones are rare, and would fill the memory."""


def _read(text: str) -> tuple[Segment, ...]:
    return tuple(_merge(segment for _, segment in _scan(text, literal=False)))


_parsed = lru_cache(maxsize=16_384)(_read)


def is_plain(text: str) -> bool:
    """True if the text says itself: no reference and no escape."""
    return "${" not in text and "{{" not in text


def escape(text: str) -> str:
    """The text written so that it stands for itself."""
    out: list[str] = []
    at = 0
    ends = True
    while at < len(text):
        if text.startswith("${", at):
            out.append("$${")
            at += 2
        elif text.startswith("{{", at):
            end = text.find("}}", at + 2) if ends else -1
            ends = end >= 0
            if not ends:
                out.append("{{{{")
                at += 2
            else:
                out.append("{{{{" + escape(text[at + 2 : end]) + "}}}}")
                at = end + 2
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


_ESCAPES = re.compile(r"\$\$\{|\{\{\{\{")
_MARKS = re.compile(r"\$\$\{|\{\{\{\{|\$\{|\{\{")


def _scan(text: str, *, literal: bool) -> Iterator[tuple[str, Segment]]:
    """Pieces of `text`, each as written and as read; inside a literal only escapes are undone."""
    marks = _ESCAPES if literal else _MARKS
    at = 0
    ends = True  # once there is no `}}}}` ahead there is none later: looked for once, reading stays linear
    lone: set[str] = set()
    while found := marks.search(text, at):
        yield (text[at : found.start()],) * 2
        mark, at = found.group(), found.end()
        if mark == "$${":
            yield mark, "${"
        elif mark == "{{{{":
            yield mark, "{{"
            end = text.find("}}}}", at) if ends else -1
            ends = end >= 0
            if ends:
                yield from _scan(text[at:end], literal=True)
                yield "}}}}", "}}"
                at = end + 4
        else:
            closer = "}" if mark == "${" else "}}"
            end = closing(text, at, closer, lone)
            after = len(text) if end < 0 else end + len(closer)
            raw = text[found.start() : after]
            if end >= 0 and (begins := _COMPUTED.match(raw, 2)):
                yield raw, _expression(raw, begins.end(), len(closer))
            else:
                yield raw, _meant(raw, len(closer), closed=end >= 0)
            at = after
    yield (text[at:],) * 2


_COMPUTED = re.compile(r"\s*=(?!=)")


def _merge(pieces: Iterator[Segment]) -> Iterator[Segment]:
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield text
            text = ""
        yield piece
    if text:
        yield text


def written_as_text(raw: str) -> str:
    """How a reference is written to be plain text."""
    return "$" + raw if raw.startswith("$") else "{{" + raw + "}}"


_BEGINS = "one begins with a step's id, metadata, item, index or a function; put several into a list or object of JSON"


def _literal_hint(raw: str) -> str:
    return f"if it is meant as text, write it as {_short(written_as_text(raw))}"


def _short(raw: str, most: int = MAX_LENGTH) -> str:
    """The reference as messages show it."""
    return raw if len(raw) <= most else raw[:40] + "…"


def _meant(raw: str, closing: int, *, closed: bool) -> Reference | Expression:
    """The reference; the expression where it is none, but can be worked out: nobody writes `${a.output.price * 2}` for anything else."""
    found = _reference(raw, 2, closing, closed=closed)
    if not found.problem or not closed or _HYPHENED.search(raw):
        return found
    made = _expression(raw, 2, closing)
    refers = made.references and not any(one.problem or not _names_a_value(one) for one in made.references)
    return made if refers and not made.problem else found


_HYPHENED = re.compile(r"\w-[A-Za-z_]")
"""As fields of other writings have it, too: `${a.output.unit-price}` is no difference."""


def _names_a_value(ref: Reference) -> bool:
    """True where it says what of a step is meant: names alone (`${a + b}`) are as well a template of another language."""
    return ref.head in WORDS or "." in ref.raw


def _reference(raw: str, opening: int, closing: int, *, closed: bool) -> Reference:
    if not closed:
        short = _short(raw, 40)
        hint = f"if it is meant as text, write {'$${' if raw[0] == '$' else '{{{{'} for its braces"
        return Reference(short, "", None, "", f"{short} has no closing braces; {hint}")
    inner = raw[opening:-closing].strip()
    found = ID.match(inner)
    if not found:
        made = f": {_BEGINS}" if inner[:1] in ("[", "{") else ""
        return Reference(raw, "", None, "", f"{_short(raw)} is no reference{made}; {_literal_hint(raw)}")
    head, rest = found.group(), inner[found.end() :].strip()
    if rest.startswith("(") and closed:
        return _around(raw, inner)
    if head == "env":
        return Reference(
            raw,
            head,
            None,
            "",
            f"{_short(raw)}: the environment cannot be read from a plan; {_literal_hint(raw)}",
        )
    if head in WORDS:
        return _word(raw, head, rest)
    if FOLLOWED.fullmatch(head) and (part := _PART.match(rest)) and part[1] not in _OF_A_STEP:
        return _of_followed(raw, f"{head}.{part[1]}", rest[part.end() :].strip())
    return _of_step(raw, head, rest)


def _expression(raw: str, begin: int, closing: int) -> Expression:
    from replan.core.references.expressions import functions, grammar  # few plans have one

    inner = raw[begin:-closing]
    try:
        tree = grammar.read(inner, functions.FUNCTIONS.__contains__)
    except grammar.UnknownFunction as error:
        return Expression(raw, problem=f"{_short(raw)}: {functions.unknown(str(error))}")
    except grammar.Unreadable as error:
        return Expression(
            raw,
            problem=f"{_short(raw)} is no expression: {error}; one is written ${{= step_1.output.price * 2 }}, and as text $${{= …}}",
        )
    found = [
        _reference(f"${{{inner[at:end].strip()}}}", 2, 1, closed=True)._replace(computed=True)
        for at, end in tree.taken
    ]
    places = tuple((begin + at, begin + end) for at, end in tree.taken)
    return Expression(raw, tuple(found), places, tree.node)


_PART = re.compile(r"\.\s*([A-Za-z_][A-Za-z0-9_-]*)")
_OF_A_STEP = NOT_OF_FOLLOWED - {RESULT}
_INSIDE = re.compile(
    rf"(?<![\w.&@-])((?:{_FOLLOWED}\.)?[A-Za-z_][A-Za-z0-9_-]*)\s*\.\s*outputs?(?![\w-])"
    rf"|(?<![\w.&@-])(metadata|item|{_FOLLOWED}\.{RESULT})(?![\w-])"
)


def _around(raw: str, inner: str) -> Reference:
    """A function written around a reference, `length(step_1.output.items)`: read as `step_1.output | length(@.items)`."""
    if len(inner) > MAX_LENGTH:
        return Reference(raw, "", None, "", f"{_short(raw)}: {check_path(inner)}")
    quoted = [
        *in_quotes(inner),
        *in_filters(inner),
        *in_braces(inner),
    ]  # where a name is one of the items, or begins anew
    heads: set[str] = set()
    out, at = "", 0
    for found in _INSIDE.finditer(inner):
        if any(start <= found.start() < end for start, end in quoted):
            continue
        heads.add(found.group(1) or found.group(2))
        out += inner[at : found.start()] + "@"
        at = found.end()
    if len(heads) == 1:
        return _with_path(raw, heads.pop(), None, out + inner[at:])
    why = "looks at several outputs; take each by a reference of its own" if heads else "refers to no output"
    return Reference(
        raw, "", None, "",
        f"{_short(raw)} {why}; a function comes after the output: ${{step_1.output.items | length(@)}}; {_literal_hint(raw)}",
    )  # fmt: skip


def _word(raw: str, head: str, rest: str) -> Reference:
    path = _path(rest)
    if path is None:
        return Reference(raw, head, None, "", f"{_short(raw)} is no reference; {_literal_hint(raw)}")
    if head == "task" and path not in ("description", "id"):
        return Reference(
            raw, head, None, "", f"{_short(raw)}: of the task there is ${{task.description}} and ${{task.id}}"
        )
    if head == "index" and path:
        return Reference(raw, head, None, "", f"{_short(raw)}: index is a number and has no parts")
    return _with_path(raw, head, None, path)


_OUTPUT = re.compile(r"\.\s*outputs?(?![A-Za-z0-9_-])")
_ARITHMETIC = re.compile(r"[-+*/%]\s*[\w(.]|.*\s[-+*/%]\s+[\w(.]")
_ACTIONS = re.compile(r"\.\s*actions\s*\.\s*([A-Za-z_][A-Za-z0-9_-]*)")


def _of_step(raw: str, head: str, rest: str) -> Reference:
    action = None
    if found := _ACTIONS.match(rest):
        action, rest = found.group(1), rest[found.end() :].strip()
    if not rest:
        return Reference(raw, head, action, "")
    if (found := _OUTPUT.match(rest)) and (path := _path(rest[found.end() :].strip())) is not None:
        return _with_path(raw, head, action, path)
    name = head if action is None else f"{head}.actions.{action}"
    rest = _OUTPUT.sub("", rest, count=1).strip().removesuffix(".")
    if _ARITHMETIC.match(rest):
        hint = (
            "a reference takes what is there; to compute with it write an expression, "
            f"${{= {name}.output.NUMBER * 2 }}, with a minus sign between blanks"
        )
        return Reference(raw, head, action, "", f"{_short(raw)}: {hint}")
    wanted = "${" + name + ".output" + (rest if rest[:1] in ("", ".", "[") else "." + rest) + "}"
    return Reference(
        raw, head, action, "", f"{_short(raw)}: an output is written {wanted}; {_literal_hint(raw)}"
    )


def _of_followed(raw: str, head: str, rest: str) -> Reference:
    """What a task that this one follows has come to, or a step of it; `head` names which."""
    alone = head.endswith(f".{RESULT}")
    if not alone and (found := _GIVEN.match(rest)):
        head, rest, alone = f"{head}.{PARAMETERS}", rest[found.end() :].strip(), True
    if alone:
        path = _path(rest)
        if path is None:
            return Reference(raw, head, None, "", f"{_short(raw)} is no reference; {_literal_hint(raw)}")
        return _with_path(raw, head, None, path)
    ref = _of_step(raw, head, rest)
    if ref.action is None:
        return ref
    hint = f"what an action of an earlier task has given is a field of its step's output: ${{{head}.output.{ref.action}}}"
    return Reference(raw, head, None, "", f"{_short(raw)}: {hint}")


_GIVEN = re.compile(rf"\.\s*{PARAMETERS}(?![A-Za-z0-9_-])")


def gives_output(head: str) -> bool:
    """True where what is referred to is a step's output, which a condition takes by `.output`."""
    return head not in WORDS and not ("." in head and head.endswith((f".{RESULT}", f".{PARAMETERS}")))


def _path(rest: str) -> str | None:
    """What follows a head, as a JMESPath; None if it cannot follow one."""
    if not rest or rest[0] == "[":
        return rest
    if rest[0] == "|":  # `output | length(@)`, `output || 'none'`
        return "@ " + rest
    return rest[1:].strip() or None if rest[0] == "." else None


def _with_path(raw: str, head: str, action: str | None, path: str) -> Reference:
    if len(path) <= MAX_LENGTH:
        path = quote_keys(path)
    problem = check_path(path, refers=True) if path else ""
    if problem:
        return Reference(raw, head, action, path, f"{_short(raw)}: {problem}")
    if outside := braces_at_root(path):
        why = f"{_short(path[slice(*outside[0])])} stands outside of filters and projections, where a reference looks into one output"
        return Reference(raw, head, action, path, f"{_short(raw)}: {why}; {_literal_hint(raw)}")
    within = inside(path)
    wrong = next((one for one in within if isinstance(one, Expression)), None)
    if wrong is not None:
        why = f"{_short(wrong.raw)} stands inside a path, where a reference may, and no expression"
        return Reference(raw, head, action, path, f"{_short(raw)}: {why}")
    return Reference(
        raw, head, action, path, within=tuple(one for one in within if isinstance(one, Reference))
    )


def inside(path: str) -> list[Reference | Expression]:
    """What stands in braces in a path that passes `check_path`."""
    if "{" not in path:
        return []
    if not (places := in_braces(path)):
        return []
    found = [alone(path[begin:end]) for begin, end in places]
    return [
        one._replace(computed=True) if isinstance(one, Reference) else one for one in found if one is not None
    ]


def with_those_inside(ref: Reference) -> Iterator[Reference]:
    """The reference, and those in its path, at any depth."""
    yield ref
    for one in ref.within:
        yield from with_those_inside(one)


def written(ref: Reference, path: str) -> str:
    """The same reference with another path."""
    head = ref.head if ref.action is None else f"{ref.head}.actions.{ref.action}"
    if gives_output(ref.head):
        head += ".output"
    between = "" if path.startswith("[") else "." if _NAMED_FIRST.match(path) else " | "
    return f"${{{head}{between}{path}}}"


_NAMED_FIRST = re.compile(r'(?:[A-Za-z_]\w*+|"(?:[^"\\]|\\.)*+")(?!\s*+\()')


# ── finding ───────────────────────────────────────────────────────────────────


def references(value: Any) -> Iterator[Reference]:
    """Every reference in a value, at any depth, in keys too; in the order in which they stand."""
    for item in every(value, keys=True):
        if isinstance(item, str) and not is_plain(item):
            for segment in parse(item):
                if isinstance(segment, Reference):
                    yield from with_those_inside(segment)
                elif isinstance(segment, Expression):
                    for ref in segment.references:
                        yield from with_those_inside(ref)


def expressions(value: Any) -> Iterator[Expression]:
    """Every expression in a value, in the same order."""
    for item in every(value, keys=True):
        if isinstance(item, str) and not is_plain(item):
            yield from (segment for segment in parse(item) if isinstance(segment, Expression))


def whole(text: str) -> Reference | None:
    """The reference, if the text is one reference and nothing else."""
    if is_plain(text):
        return None
    segments = parse(text)
    if len(segments) == 1 and isinstance(segments[0], Reference):
        return segments[0]
    return None


def alone(text: str) -> Reference | Expression | None:
    """The reference or the expression that the text is and nothing else: it keeps the type of what it gives."""
    segments = () if is_plain(text) else parse(text)
    return segments[0] if len(segments) == 1 and not isinstance(segments[0], str) else None


def rewritten(value: Any, of: Callable[[Reference], str]) -> Any:
    """The value with every reference in it written as `of` writes it: for comparing, not for filling in."""
    if isinstance(value, str):
        if is_plain(value):
            return value
        return "".join(
            part
            if isinstance(part, str)
            else of(_told(part, of))
            if isinstance(part, Reference)
            else part.meaning(of)
            for part in parse(value)
        )
    if isinstance(value, dict):
        return {key: rewritten(item, of) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rewritten(item, of) for item in value]
    return value


def changed(text: str, of: Callable[[str], str]) -> str:
    """The text with `of` made of every reference in it, as written; all else stays as it is written, escapes too."""
    if is_plain(text):
        return text
    out = ""
    for raw, part in _scan(text, literal=False):
        out += (
            of(raw)
            if isinstance(part, Reference)
            else part.changed(of)
            if isinstance(part, Expression)
            else raw
        )
    return out


def _told(ref: Reference, of: Callable[[Reference], str]) -> Reference:
    """The reference with what `of` makes of those in its path, as texts."""
    if not ref.within:
        return ref
    texts = (json.dumps(of(_told(one, of))).replace("`", "\\u0060") for one in ref.within)
    path = replaced(ref.path, zip(in_braces(ref.path), (f"`{text}`" for text in texts), strict=True))
    return ref._replace(path=path, within=())


def meaning(ref: Reference) -> str:
    """The reference as a text that is the same however it was written."""
    if ref.problem:
        return ref.raw
    ref = _told(ref, meaning)
    path = json.dumps(parsed(ref.path), sort_keys=True, default=str) if ref.path else ""
    return f"${{{ref.head}.{ref.action or ''}.{path}}}"


def listed(text: str) -> list[Any] | None:
    """The list that a `for_each` is where it names its items itself, as JSON; None if it is none."""
    if not text.startswith("["):
        return None
    found = read_text(text)
    return found if isinstance(found, list) else None


_NUMBERS = frozenset({int, float, bool, type(None)})


def has_references(value: Any) -> bool:
    """True if filling in would change the value: it holds a reference or an escape."""
    if type(value) is dict:  # most parameters are seen to hold none at the first look
        for name, item in value.items():
            if "{" in name or not (type(item) in _NUMBERS or (type(item) is str and "{" not in item)):
                break
        else:
            return False
    stack = [value]
    while stack:
        item = stack.pop()
        if type(item) in _NUMBERS:
            continue
        if isinstance(item, str):
            if not is_plain(item):
                return True
        elif isinstance(item, dict):
            stack.extend(item.values())
            stack.extend(item.keys())
        elif isinstance(item, list | tuple):
            stack.extend(item)
    return False
