"""Values that a JSON Schema allows, from a seed; a small generator, for schemas of tools."""

from __future__ import annotations

import base64
import math
import random
import re
import string
from typing import Any

try:
    from re import _parser as sre  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover
    import sre_parse as sre

from jsonschema import Draft202012Validator

CUT = "not shown in full"
_DEEPEST = 6
_FORMATS = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:30:00Z",
    "time": "12:30:00Z",
    "email": "someone@example.org",
    "uuid": "1b4e28ba-2fa1-4d3b-883f-0016d3cca427",
    "uri": "https://example.org/x?y=1",
    "url": "https://example.org/x?y=1",
    "hostname": "example.org",
    "ipv4": "192.0.2.7",
    "ipv6": "2001:db8::7",
    "byte": base64.b64encode(b"some bytes").decode(),
    "binary": "data:application/octet-stream;base64," + base64.b64encode(bytes(range(64))).decode(),
}


class NotMade(Exception):
    """No value of this schema is found by this generator; why."""


class Values:
    """Values for one schema of a tool. `everything`: with optional properties, else without."""

    def __init__(self, schema: Any, seed: int, *, everything: bool) -> None:
        self._root = schema
        self._random = random.Random(seed)
        self._everything = everything
        self._checker = Draft202012Validator(schema)

    def make(self) -> Any:
        """A value that the whole schema allows. Raises `NotMade`."""
        problem = ""
        for _ in range(30):
            value = self._of(self._root, 0)
            error = next(iter(self._checker.iter_errors(value)), None)
            if error is None:
                return value
            problem = f"{'/'.join(map(str, error.absolute_path))}: {error.message[:150]}"
        raise NotMade(problem)

    def _of(self, schema: Any, depth: int) -> Any:
        if schema is True or schema == {}:
            return self._word()
        if schema is False or depth > 40:
            raise NotMade("nothing fits, or it never ends")
        schema = self._resolved(schema)
        if schema.get("title") == CUT:
            raise NotMade(CUT)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._random.choice(schema["enum"])
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self._branch(schema, word, depth)
        if "allOf" in schema:
            return self._of(self._merged(schema), depth)
        return self._of_type(self._type(schema), schema, depth)

    def _resolved(self, schema: Any) -> Any:
        seen = 0
        while "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            rest = {key: value for key, value in schema.items() if key not in ("$ref", "description")}
            target = self._root["$defs"][name]
            schema = {"allOf": [target, rest]} if rest else target
            seen += 1
            if seen > 30:
                raise NotMade("a circle of references")
        return schema

    def _branch(self, schema: Any, word: str, depth: int) -> Any:
        rest = {key: value for key, value in schema.items() if key not in (word, "description")}
        branches = list(schema[word])
        self._random.shuffle(branches)
        if depth > _DEEPEST:
            branches.sort(key=lambda each: len(str(each)))
        problem = NotMade("no branch fits")
        for branch in branches:
            try:
                return self._of({"allOf": [branch, rest]} if rest else branch, depth + 1)
            except NotMade as error:
                problem = error
        raise problem

    def _merged(self, schema: Any) -> Any:
        found: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            part = self._resolved(part)
            if part is True:
                continue
            if "allOf" in part:
                part = self._merged(part)
            if part.get("title") == CUT:
                raise NotMade(CUT)
            for key, value in part.items():
                if key == "properties":
                    both = dict(found.get(key, {}))
                    for name, each in value.items():
                        both[name] = (
                            {"allOf": [both[name], each]} if name in both and both[name] != each else each
                        )
                    found[key] = both
                elif key == "required":
                    found[key] = list(dict.fromkeys([*found.get(key, []), *value]))
                elif key == "enum" and key in found:
                    found[key] = [each for each in found[key] if each in value]
                elif key in ("minLength", "minimum", "minItems", "minProperties") and key in found:
                    found[key] = max(found[key], value)
                elif key in ("maxLength", "maximum", "maxItems", "maxProperties") and key in found:
                    found[key] = min(found[key], value)
                elif key in ("oneOf", "anyOf") and key in found and found[key] != value:
                    found.setdefault("allOf", []).append({key: value})
                else:
                    found[key] = value
        if "allOf" in found:
            raise NotMade("several oneOf or anyOf at one place")
        return found

    def _type(self, schema: Any) -> str:
        kinds = schema.get("type")
        if isinstance(kinds, list):
            rest = [each for each in kinds if each != "null"]
            return str(self._random.choice(rest or ["null"]))
        if kinds:
            return str(kinds)
        if "properties" in schema or "required" in schema or "additionalProperties" in schema:
            return "object"
        if "items" in schema:
            return "array"
        if any(key in schema for key in ("minimum", "maximum", "multipleOf")):
            return "number"
        return "string"

    def _of_type(self, kind: str, schema: Any, depth: int) -> Any:
        match kind:
            case "null":
                return None
            case "boolean":
                return self._random.random() < 0.5
            case "integer" | "number":
                return self._number(schema, whole=kind == "integer")
            case "array":
                return self._list(schema, depth)
            case "object":
                return self._object(schema, depth)
        return self._text(schema)

    def _number(self, schema: Any, *, whole: bool) -> Any:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        low = low if low is not None else (min(0, high - 10) if high is not None else 0)
        high = high if high is not None else low + 100
        step = schema.get("multipleOf", 1 if whole else 0.5)
        first, last = math.ceil(low / step), math.floor(high / step)
        if "exclusiveMinimum" in schema and first * step <= schema["exclusiveMinimum"]:
            first += 1
        if "exclusiveMaximum" in schema and last * step >= schema["exclusiveMaximum"]:
            last -= 1
        if first > last:
            return low
        value = self._random.randint(first, min(last, first + 1000)) * step
        return int(value) if whole else value

    def _list(self, schema: Any, depth: int) -> list[Any]:
        least = max(schema.get("minItems", 0), schema.get("minContains", 0))
        most = schema.get("maxItems", max(least, 3))
        count = (
            least
            if depth > _DEEPEST
            else self._random.randint(max(least, min(1, most)), max(least, min(most, least + 2)))
        )
        fixed = schema.get("prefixItems", [])
        items: list[Any] = []
        for index in range(count):
            part = fixed[index] if index < len(fixed) else schema.get("items", {})
            for _ in range(20):
                try:
                    item = self._of(part, depth + 1)
                except NotMade:
                    if least == 0:
                        return items
                    raise
                if not schema.get("uniqueItems") or item not in items:
                    items.append(item)
                    break
        return items

    def _object(self, schema: Any, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        for name, part in properties.items():
            if name in required:
                found[name] = self._of(part, depth + 1)
            elif (
                self._everything and depth < _DEEPEST and self._random.random() < (0.9 if depth < 1 else 0.5)
            ):
                try:
                    found[name] = self._of(part, depth + 1)
                except NotMade:
                    continue
        more = schema.get("additionalProperties", True)
        for name in required:
            if name not in found:
                found[name] = self._of(more, depth + 1)
        for pattern, part in schema.get("patternProperties", {}).items():
            if self._everything and depth < _DEEPEST:
                found[_matching(pattern, self._random)] = self._of(part, depth + 1)
        wanted = schema.get(
            "minProperties",
            1 if isinstance(more, dict) and more and self._everything and depth < _DEEPEST else 0,
        )
        names = [name for name in properties if name not in found]
        while len(found) < wanted:
            if names:
                name = names.pop()
                found[name] = self._of(properties[name], depth + 1)
            elif more is False:
                break
            else:
                found[self._word()] = self._of(more, depth + 1)
        most = schema.get("maxProperties")
        if most is not None:
            for name in [each for each in found if each not in required][: max(0, len(found) - most)]:
                del found[name]
        return found

    def _text(self, schema: Any) -> str:
        if "pattern" in schema:
            text = _matching(schema["pattern"], self._random)
            least = schema.get("minLength", 0)
            for _ in range(50):
                if least <= len(text) <= schema.get("maxLength", 1 << 30):
                    break
                text = _matching(schema["pattern"], self._random, least)
            return text
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        least, most = schema.get("minLength", 0), schema.get("maxLength", 1 << 30)
        text = self._word()
        while len(text) < least:
            text += self._random.choice(string.ascii_lowercase)
        return text[:most]

    def _word(self) -> str:
        return "v" + "".join(self._random.choices(string.ascii_lowercase, k=5))


def _matching(pattern: str, rng: random.Random, least: int = 0) -> str:
    """A text in which the pattern is found."""
    try:
        return _write(sre.parse(pattern), rng, {}, least)
    except (re.error, RecursionError) as error:
        raise NotMade(f"the pattern {pattern[:80]!r}: {error}") from None


def _write(tree: Any, rng: random.Random, groups: dict[int, str], least: int) -> str:
    out = ""
    for op, argument in tree:
        name = str(op)
        if name == "LITERAL":
            out += chr(argument)
        elif name == "NOT_LITERAL":
            out += "a" if chr(argument) != "a" else "b"
        elif name == "ANY":
            out += rng.choice(string.ascii_lowercase)
        elif name == "IN":
            out += _one_of(argument, rng)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, inner = argument
            most = min(int(high), max(int(low), least, int(low) + 3))
            for _ in range(rng.randint(max(int(low), min(most, least)), most)):
                out += _write(inner, rng, groups, 0)
        elif name == "SUBPATTERN":
            text = _write(argument[3], rng, groups, least)
            if argument[0] is not None:
                groups[argument[0]] = text
            out += text
        elif name == "BRANCH":
            out += _write(rng.choice(argument[1]), rng, groups, least)
        elif name == "GROUPREF":
            out += groups.get(argument, "")
        elif name in ("AT", "ASSERT_NOT"):
            continue
        else:
            raise NotMade(f"a pattern with {name}, for which no text is made")
    return out


def _one_of(parts: Any, rng: random.Random) -> str:
    preferred = string.ascii_letters + string.digits + "-_ .,:/+@#"
    fitting = [each for each in preferred if _is_in(parts, each)]
    fitting = [each for each in fitting if each.isalnum()] or fitting
    if not fitting:
        fitting = [chr(code) for code in range(1, 0x2000) if _is_in(parts, chr(code))]
    return rng.choice(fitting) if fitting else ""


def _is_in(parts: Any, character: str) -> bool:
    negated, found = False, False
    for op, argument in parts:
        name = str(op)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            found = found or ord(character) == argument
        elif name == "RANGE":
            found = found or argument[0] <= ord(character) <= argument[1]
        elif name == "CATEGORY":
            kind = str(argument)
            plain = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[kind.rpartition("_")[2]]
            match = re.match(plain, character) is not None
            found = found or (match != ("NOT" in kind))
    return found != negated
