"""How expressions are written: an operator-precedence grammar of one page, read into a tree.

    expression  = or [ "?" expression ":" expression ]
    or          = and  { ("||" | "or") and }
    and         = not  { ("&&" | "and") not }
    not         = { "!" | "not" } compared
    compared    = sum  [ ("==" | "!=" | "<" | "<=" | ">" | ">=") sum ]
    sum         = product { ("+" | "-") product }
    product     = sign { ("*" | "/" | "%") sign }
    sign        = { "-" } operand
    operand     = number | text | "true" | "false" | "null" | "[" [ expression { "," expression } ] "]"
                | "(" expression ")" | FUNCTION "(" [ expression { "," expression } ] ")" [ path ] | reference

A reference is written as in `${…}`, without braces: `step_1.output.items[*].price`; what follows a function is what may follow that: `[*].price`. Step ids may have hyphens, so a minus sign stands
between blanks. Operators and their order are those of the Common Expression Language; numbers are decimal, as people count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from replan.core.references.braces import in_braces
from replan.core.references.expressions.values import DECIMAL
from replan.core.references.paths import check_path, quote_keys
from replan.core.references.trees import braces_at_root

MOST_LENGTH = 2_000
"""Characters of an expression."""
_MOST_DEPTH = 40
_MOST_OPERATORS = 200
"""A row of them is as deep a tree, and whoever walks it goes one call deeper with each."""
_COMPARED = ("==", "!=", "<=", ">=", "<", ">")


EACH = "a step with `for_each` over the list does it, with ${= item.a * item.b }"


class Unreadable(Exception):
    """It is no expression; the text says where, and what would be."""


class UnknownFunction(Unreadable):
    """It calls a function that there is not; the text is its name."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any
    """A `Decimal`, a text, a truth value or None."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A reference: its place among those of the expression."""

    index: int


@dataclass(frozen=True, slots=True)
class Listed:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Called:
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Picked:
    """What a path takes of what a function gives."""

    of: Node
    path: str
    inside: tuple[tuple[str, int], ...]
    """The references in the path, as they are written there, with their places among those of the expression."""


@dataclass(frozen=True, slots=True)
class Signed:
    operator: str
    """`-` or `!`."""
    of: Node


@dataclass(frozen=True, slots=True)
class Paired:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Chosen:
    condition: Node
    then: Node
    otherwise: Node


Node = Literal | Taken | Listed | Called | Picked | Signed | Paired | Chosen


@dataclass(frozen=True, slots=True)
class Tree:
    node: Node
    taken: tuple[tuple[int, int], ...]
    """Where in the text each reference stands."""


_TOKEN = re.compile(
    r"""\s*+(?:
      (?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.]))
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    | (?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:(),\[\]])
    )""",
    re.VERBOSE | re.DOTALL,
)
_PATH = re.compile(r"""\s*+\.\s*+(?:[A-Za-z_][A-Za-z0-9_]*+(?:-++[A-Za-z0-9_]++)*+|\*|"(?:[^"\\]|\\.)*+")""")
_FIELD = re.compile(r"""\s*+\.\s*+(?:[A-Za-z_][A-Za-z0-9_]*+|\*|"(?:[^"\\]|\\.)*+")""")
_PIPED = re.compile(r"\s*+\|\s*+(?=\[)")
"""What leads to one of the items that stand before it: `a.output[?b].c | [0]`."""
_IN_BRACKETS = re.compile(
    r"""[\[\]]|"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|`(?:[^`\\]|\\.)*+`?""", re.DOTALL
)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_VALUES = {"true": True, "false": False, "null": None}
_WORDS = {"and": "&&", "or": "||", "not": "!"}


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2])


def literal(value: Any) -> str | None:
    """How a value of JSON is written in an expression; None for what has no literal. Braces and `$` stand in it as escapes alone."""
    if isinstance(value, list):
        items = [literal(item) for item in value]
        return None if None in items else f"[{', '.join(map(str, items))}]"
    if not isinstance(value, str):
        return None if isinstance(value, dict) else json.dumps(value)
    return '"' + "".join(one if one.isalnum() or one in _AS_IT_IS else _escape(one) for one in value) + '"'


_AS_IT_IS = frozenset(" _-.,:;/@+=()")


def _escape(sign: str) -> str:
    code = ord(sign)
    return f"\\u{code:04x}" if code < 0x10000 else sign


def read(text: str, is_function: Callable[[str], bool]) -> Tree:
    """The tree of an expression; `Unreadable` where it is none."""
    if len(text) > MOST_LENGTH:
        raise Unreadable(f"it has {len(text)} characters; at most {MOST_LENGTH} are allowed")
    reader = _Reader(text, is_function)
    node = reader.expression(0)
    if reader.kind != "end":
        raise Unreadable(reader.unexpected())
    return Tree(node, tuple(reader.taken))


_EITHER_WAY = ("*", "==", "!=", "&&", "||")


def _is_no_text(node: Node) -> bool:
    """True if it gives no text, whatever its references give."""
    match node:
        case Literal(value):
            return not isinstance(value, str)
        case Paired("+", left, right):
            return _is_no_text(left) or _is_no_text(right)
        case _:
            return isinstance(node, Signed | Paired)


def told(node: Node, references: Sequence[str]) -> str:
    """One text for all trees that are worked out alike: of what is multiplied, or added as numbers, the order does not count.

    Of texts it does: "A to B" is not "B to A".
    """
    match node:
        case Literal(value):
            return repr(value.normalize(DECIMAL) if isinstance(value, Decimal) else value)
        case Taken(index):
            return references[index]
        case Listed(items):
            return f"[{', '.join(told(one, references) for one in items)}]"
        case Called(name, arguments):
            return f"{name}({', '.join(told(one, references) for one in arguments)})"
        case Picked(of, path, inside):
            for raw, index in inside:
                path = path.replace(raw, references[index])
            return f"({told(of, references)}).{path}"
        case Signed(sign, of):
            return f"{sign}({told(of, references)})"
        case Paired(sign, left, right):
            both = [told(left, references), told(right, references)]
            either_way = sign in _EITHER_WAY or (sign == "+" and _is_no_text(node))
            return f"({f' {sign} '.join(sorted(both) if either_way else both)})"
        case Chosen(condition, then, otherwise):
            return (
                f"({told(condition, references)} ? {told(then, references)} : {told(otherwise, references)})"
            )


class _Reader:
    """Reads one expression from left to right, one token ahead."""

    def __init__(self, text: str, is_function: Callable[[str], bool]) -> None:
        self.text = text
        self.taken: list[tuple[int, int]] = []
        self.kind = self.value = ""
        self._is_function = is_function
        self._at = self._from = self._operators = 0
        self._next()

    # ── tokens ──

    def _next(self) -> None:
        found = _TOKEN.match(self.text, self._at)
        if found is None:
            self._from = len(self.text) - len(self.text[self._at :].lstrip())
            if self._from < len(self.text):
                raise Unreadable(self._wrong_sign())
            self.kind, self.value = "end", ""
            return
        self.kind, self._at = str(found.lastgroup), found.end()
        self.value, self._from = found[self.kind], found.start(self.kind)
        if self.kind == "name" and self.value in _WORDS:
            self.kind, self.value = "sign", _WORDS[self.value]

    def _wrong_sign(self) -> str:
        rest = self.text[self._from :]
        if rest[0] in "\"'":
            return f"the text that begins with {rest[:20]} has no closing quote"
        if rest[0] == "`":
            return "backticks are for paths; a value is written as it is here: > 100"
        if rest[0] == "." and rest[1:].lstrip()[:1] == "(":
            return f"nothing is computed for each item of a list: {EACH}"
        if rest[0] == "=":
            return "two values are compared with =="
        return f"{rest[:20]!r} is not understood"

    def unexpected(self) -> str:
        """What is wrong with the token that comes next."""
        if self.kind == "end":
            return "it ends too early"
        before = self.text[: self._from].rstrip()
        between = f" after {before[-20:].lstrip()!r}" if before else ""
        return f"{self.text[self._from : self._from + 20].rstrip()!r} is not expected{between}"

    def _takes(self, *signs: str) -> str:
        if self.kind != "sign" or self.value not in signs:
            return ""
        found = self.value
        self._next()
        return found

    def _needs(self, sign: str) -> None:
        if not self._takes(sign):
            raise Unreadable(f"{sign!r} is missing: {self.unexpected()}")

    # ── grammar ──

    def _pair(self, sign: str, left: Node, right: Node) -> Node:
        self._operators += 1
        if self._operators > _MOST_OPERATORS:
            raise Unreadable(f"it has more than {_MOST_OPERATORS} operators; sum(…) and join(…) take lists")
        return Paired(sign, left, right)

    def expression(self, depth: int) -> Node:
        if depth > _MOST_DEPTH:
            raise Unreadable(f"it is nested deeper than {_MOST_DEPTH} levels")
        condition = self._left_to_right(0, depth)
        if not self._takes("?"):
            return condition
        then = self.expression(depth + 1)
        self._needs(":")
        return Chosen(condition, then, self.expression(depth + 1))

    _LEVELS = (("||",), ("&&",))
    _AFTER = (("+", "-"), ("*", "/", "%"))

    def _left_to_right(self, level: int, depth: int) -> Node:
        """`or` and `and`."""
        if level == len(self._LEVELS):
            return self._not(depth)
        node = self._left_to_right(level + 1, depth)
        while found := self._takes(*self._LEVELS[level]):
            node = self._pair(found, node, self._left_to_right(level + 1, depth))
        return node

    def _not(self, depth: int) -> Node:
        count = 0
        while self._takes("!"):
            count += 1
        node = self._compared(depth)
        for _ in range(min(count, 2 - count % 2)):  # `!!!x` is `!x`, and `!!x` still a truth value
            node = Signed("!", node)
        return node

    def _compared(self, depth: int) -> Node:
        node = self._computed(0, depth)
        if not (found := self._takes(*_COMPARED)):
            return node
        node = self._pair(found, node, self._computed(0, depth))
        if self.kind == "sign" and self.value in _COMPARED:
            raise Unreadable("two comparisons in a row: put && between them")
        return node

    def _computed(self, level: int, depth: int) -> Node:
        """Sums and products."""
        if level == len(self._AFTER):
            return self._sign(depth)
        node = self._computed(level + 1, depth)
        while found := self._takes(*self._AFTER[level]):
            node = self._pair(found, node, self._computed(level + 1, depth))
        return node

    def _sign(self, depth: int) -> Node:
        count = 0
        while self._takes("-"):
            count += 1
        node = self._operand(depth)
        for _ in range(min(count, 2 - count % 2)):
            node = Signed("-", node)
        return node

    def _operand(self, depth: int) -> Node:
        if self.kind == "number":
            node: Node = Literal(self._number())
        elif self.kind == "text":
            node = Literal(self._text())
        elif self.kind == "name":
            return self._named(depth)
        elif self._takes("("):
            node = self.expression(depth + 1)
            self._needs(")")
            return node
        elif self._takes("["):
            return Listed(self._several("]", depth))
        else:
            raise Unreadable(self.unexpected())
        self._next()
        return node

    def _number(self) -> Decimal:
        found = Decimal(self.value)
        if len(found.as_tuple().digits) > DECIMAL.prec:
            raise Unreadable(f"{self.value} has more than {DECIMAL.prec} digits")
        return found

    def _text(self) -> str:
        found = _ESCAPED.sub(_unescaped, self.value[1:-1])
        try:  # two escapes may be the halves of one sign
            return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise Unreadable(
                f"the text {self.value[:20]} has half of a sign, which no text is written with"
            ) from None

    def _several(self, closing: str, depth: int) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._takes(closing):
            if items:
                self._needs(",")
            items.append(self.expression(depth + 1))
        return tuple(items)

    def _named(self, depth: int) -> Node:
        name, begins = self.value, self._from
        if name in _VALUES and self.text[self._at : self._at + 1] not in (".", "["):
            self._next()
            return Literal(_VALUES[name])
        if self.text[self._at :].lstrip()[:1] == "(":
            if not self._is_function(name):
                raise UnknownFunction(name)
            self._next()
            self._needs("(")
            return self._called(name, depth)
        self._at = self._end_of_path(self._at)
        self.taken.append((begins, self._at))
        self._next()
        return Taken(len(self.taken) - 1)

    def _called(self, name: str, depth: int) -> Node:
        """A function from its first argument on, with the path that follows it."""
        arguments: list[Node] = []
        while self.kind != "sign" or self.value != ")":
            if arguments:
                self._needs(",")
                if self.kind == "sign" and self.value == ")":
                    break
            arguments.append(self.expression(depth + 1))
        begins, self._at = self._at, self._end_of_path(self._at, first=False)
        written = self.text[begins : self._at]
        inside: list[tuple[str, int]] = []
        for begin, end in in_braces(written):
            raw = written[begin:end]
            inside.append((raw, len(self.taken)))
            self.taken.append((begins + begin + 2, begins + end - (1 if raw.startswith("$") else 2)))
        self._next()
        node = Called(name, tuple(arguments))
        path = quote_keys(written.strip().removeprefix(".").lstrip())
        if not path:
            return node
        if problem := check_path(path, refers=True):
            raise Unreadable(f"what follows {name}(…): {problem}")
        if braces_at_root(path):
            raise Unreadable(f"what follows {name}(…): a reference stands in a filter or a projection there")
        return Picked(node, path, tuple(inside))

    def _end_of_path(self, at: int, *, first: bool = True) -> int:
        """Where the reference ends that begins before: fields and what stands in brackets belong to it."""
        while True:
            # after the head there may be an action or a step of a followed task, which have hyphens as heads have
            found = _PATH.match(self.text, at) if first else _FIELD.match(self.text, at)
            if found is not None:
                at = found.end()
                first = found[0].strip(" .") in ("actions", "previous")
            elif self.text[at : at + 1] == "[":
                at = self._end_of_brackets(at)
                first = False
            elif (piped := _PIPED.match(self.text, at)) is not None:
                at = self._end_of_brackets(piped.end())
                first = False
            else:
                return at

    def _end_of_brackets(self, at: int) -> int:
        begins, depth = at, 0
        while found := _IN_BRACKETS.search(self.text, at):
            at = found.end()
            depth += {"[": 1, "]": -1}.get(found[0], 0)
            if not depth:
                return at
        raise Unreadable(f"the bracket at {self.text[begins : begins + 20]!r} is not closed")


def calls_in(node: Node) -> Iterator[Called]:
    """The functions that are called, those within others included."""
    match node:
        case Called(_, parts):
            yield node
            for one in parts:
                yield from calls_in(one)
        case Listed(parts):
            for one in parts:
                yield from calls_in(one)
        case Picked(of, _) | Signed(_, of):
            yield from calls_in(of)
        case Paired(_, left, right):
            yield from calls_in(left)
            yield from calls_in(right)
        case Chosen(condition, then, otherwise):
            for one in (condition, then, otherwise):
                yield from calls_in(one)


def paths_in(node: Node | None) -> Iterator[str]:
    """The paths that follow functions."""
    match node:
        case Picked(of, path):
            yield path
            yield from paths_in(of)
        case Listed(parts) | Called(_, parts):
            for one in parts:
                yield from paths_in(one)
        case Signed(_, of):
            yield from paths_in(of)
        case Paired(_, left, right):
            yield from paths_in(left)
            yield from paths_in(right)
        case Chosen(condition, then, otherwise):
            for one in (condition, then, otherwise):
                yield from paths_in(one)
