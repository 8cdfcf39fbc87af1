"""Conditions in the writing of other languages: `not a`, `a and b`, `a == False`, `length(a) == 0`, `len(a) > 0`.

None of them is JMESPath, so that nothing else can be meant.
"""

from __future__ import annotations

import re

from replan.core.references.paths import LITERALS, MAX_LENGTH, OF_LENGTH, check_path

_TOKEN = re.compile(
    r"""(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)"""
    r"|(?P<compared>[=!<>]=|[<>])"
    r"|(?P<sign>&&|\|\||[()\[\]{},])"
    r"|(?P<number>(?<![\w.\]])-?\d+(?:\.\d+)?(?![\w.]))"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<blank>\s+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_OPERATORS = {"and": "&&", "or": "||"}
_OPENING, _CLOSING = "([{", ")]}"


def as_meant(text: str) -> str:
    """The condition in JMESPath where it is written in another way of which that can be told; else as it is."""
    if len(text) > MAX_LENGTH or not check_path(text, refers=True) or OF_LENGTH.search(text):
        return text
    meant = _negated(_valued([(str(one.lastgroup), one[0]) for one in _TOKEN.finditer(text)]))
    return text if check_path(meant, refers=True) else meant


def _valued(tokens: list[tuple[str, str]]) -> list[str]:
    """Numbers and words for values in backticks where they are compared with, `and` and `or` as signs, `len` by its name here."""
    solid = [at for at, (kind, _) in enumerate(tokens) if kind != "blank"]
    out = [text for _, text in tokens]
    for place, at in enumerate(solid):
        kind, text = tokens[at]
        before = tokens[solid[place - 1]] if place else ("", "")
        after = tokens[solid[place + 1]] if place + 1 < len(solid) else ("", "")
        beside = before[0] == "compared" or (
            after[0] == "compared" and before[1] in ("", "(", "&&", "||", "and", "or", "not")
        )
        if beside and (kind == "number" or text in LITERALS) and after[1] not in (".", "[", "("):
            out[at] = f"`{LITERALS.get(text, text)}`"
        elif text == "len" and before[1] != "." and after[1] == "(":
            out[at] = "length"
        elif text in _OPERATORS and before[1] not in ("", ".") and after[1] not in ("", "."):
            out[at] = _OPERATORS[text]
    return out


def _negated(tokens: list[str]) -> str:
    """`not a == b` as `!(a == b)`: it reaches as far as the comparison does."""
    out = ""
    open_until: list[int] = []
    at = 0
    while at < len(tokens) or open_until:
        if open_until and at == open_until[-1]:
            out = f"{out.rstrip()}){' ' if tokens[at - 1].isspace() else ''}"
            open_until.pop()
            continue
        end = open_until[-1] if open_until else len(tokens)
        if tokens[at] == "not" and not out.rstrip().endswith(".") and at + 1 < end and tokens[at + 1] != ".":
            out += "!("
            open_until.append(_end_of_operand(tokens, at + 1))
        elif not (tokens[at].isspace() and out.endswith("!(")):
            out += tokens[at]
        at += 1
    return out


def _end_of_operand(tokens: list[str], at: int) -> int:
    depth = 0
    while at < len(tokens):
        if tokens[at] in _OPENING:
            depth += 1
        elif depth and tokens[at] in _CLOSING:
            depth -= 1
        elif not depth and tokens[at] in ("&&", "||", ",", *_CLOSING):
            break
        at += 1
    return at
