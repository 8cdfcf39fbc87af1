"""A declared verifier: what is read about a call in doubt, and which records there are of it (specification §5).

`call` in its parameters and expressions is the call in doubt: `{key, parameters, tool}`. A record settles one call only:
those that speak for other calls of the task are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from replan.core.calls.readings import shortcoming
from replan.core.data import schemas
from replan.core.data.nothing import is_nothing
from replan.core.ids import canonical, digest
from replan.core.references.evaluate import evaluate
from replan.core.references.meter import Meter, Missing
from replan.core.references.paths import PathError, chains, check_path, filters, select
from replan.core.references.refs import Reference, references
from replan.core.references.resolve import resolve
from replan.core.types import JsonObject, ToolSpec, Verifier
from replan.core.words import in_digits
from replan.errors import UnresolvedReference

DEFAULT_AFTER_SECS = 30.0
"""How long a "no" is waited for where neither the verifier nor a limit of the tool says it."""

_CALL = re.compile(
    r"(?:\$\{\s*(?P<braced>call(?:\s*\.[^{}]*)?)\}"
    r'|(?<![\w."\'$-])(?P<bare>call(?:\.(?:[A-Za-z_]\w*|"(?:[^"\\]|\\.)*")|\[\d+\])*)(?!\s*[:(\w]))'
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"")


class Found(NamedTuple):
    """A record of a call that took effect, and what the call has given."""

    record: str
    """Its digest: the same for the same record, whoever reads it."""
    output: Any
    text: str = ""
    listed: bool = False
    """One of a list: where another call has it, there would be another one for this call."""
    has_key: bool = False
    """It says itself which call it is of, or was selected from what says so."""

    def of_call(self, key: str) -> Found:
        """A record that was looked for by the call's key: it is this call's, though another's may read the same."""
        return self._replace(record=digest(f"{key}\x00{self.text}"))


class CannotTell(Exception):
    """The reading answers neither yes nor no."""


def call_value(key: str, tool: ToolSpec, parameters: JsonObject) -> JsonObject:
    """The call as a verifier sees it: parameters that were left out have the schema's default, or are null."""
    properties = tool.parameters.get("properties")
    known = properties if isinstance(properties, dict) else {}
    defaults = {
        name: schema.get("default") if isinstance(schema, dict) else None for name, schema in known.items()
    }
    return {"key": key, "tool": tool.id, "parameters": {**defaults, **parameters}}


def reading_parameters(verifier: Verifier, call: JsonObject) -> JsonObject:
    """What the reading tool is called with; `CannotTell` if that cannot be had."""

    def lookup(ref: Reference) -> tuple[Any, str]:
        return call, "the call"

    try:
        found = resolve(_as_paths(verifier.parameters), lookup)
    except (UnresolvedReference, PathError) as error:
        raise CannotTell(str(error)) from None
    return found if isinstance(found, dict) else {}


def records(verifier: Verifier, call: JsonObject, output: Any) -> list[Found]:
    """The records in a reading that say that the call happened, each once for each time that it stands there."""
    if not verifier.happened:  # a function has looked: what it gives is the output
        if output is None or output is False:
            return []
        if is_nothing(output):
            raise CannotTell(
                f"it gave {canonical(output)[:80]}; None says that the call did not happen, and what it has given that it did"
            )
        if error := shortcoming(output) if isinstance(output, dict) else "":
            raise CannotTell(f"what it gave has {error!r}: that is no record")
        return [_found(call, output, output)]
    scope = {"output": output, "call": call}
    for named in _PARAMETER.finditer(verifier.happened):
        if named[3] and call["parameters"].get(named[3]) is None:
            # null would equal whatever a record has not
            raise CannotTell(f"happened looks at {named[3]!r}, which this call was made without")
    value = _happened(verifier, call, scope)
    listed = isinstance(value, list)
    if value is True or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
        value = output
    has_key = _takes_key(verifier.happened) and call["key"] in canonical(output)
    found = []
    for record in value if isinstance(value, list) and listed else [value]:
        if is_nothing(record):
            continue
        given = _selected(verifier.output, call, {**scope, "record": record}) if verifier.output else record
        found.append(_found(call, record, given, listed=listed, has_key=has_key))
    if not found and (field := shortcoming(output, _looked_at(verifier))):
        raise CannotTell(
            f"the reading says by {field!r} that it is not the whole: that it shows nothing is no no; if {field!r} says "
            "something else there, name it under regardless_of"
        )
    return found


def _looked_at(verifier: Verifier) -> set[str]:
    """The fields that the expression names, and those that are declared to say nothing of it."""
    return {*re.findall(r"[A-Za-z_]\w*", verifier.happened), *verifier.regardless_of}


def by_key(verifier: Verifier) -> bool:
    """True if the verifier is given the call's key to look by."""
    return verifier.by_key or any(map(_takes_key, _texts(verifier)))


def _takes_key(text: str) -> bool:
    return bool(re.search(r"\bcall\s*\.\s*key\b", text))


def parameters_looked_at(verifier: Verifier) -> set[str] | None:
    """The call's parameters that the verifier goes by; None if it goes by all of them."""
    texts = " ".join(_texts(verifier))
    if re.search(r"\bcall\s*\.\s*parameters\s*(?![\s.])", texts):
        return None
    return {found[3] for found in _PARAMETER.finditer(texts) if found[3]}


def secret_names(verifier: Verifier, tool: ToolSpec) -> list[str]:
    """The reading's parameters that get secrets of the call: they are masked there too."""
    return [
        name
        for name, value in verifier.parameters.items()
        if any(_takes_secret(ref, tool) for ref in references(_as_paths(value)))
    ]


def _takes_secret(ref: Reference, tool: ToolSpec) -> bool:
    """True if the reference to the call selects a secret parameter, or so much that one may be in it."""
    if ref.head != "call" or ref.problem or not tool.secrets:
        return False
    begins = chains(ref.path) if ref.path and "@" not in ref.path else []
    return not begins or any(
        chain[:1] == ("parameters",) and (len(chain) == 1 or chain[1] in tool.secrets) for chain in begins
    )


def _found(
    call: JsonObject, record: Any, given: Any, *, listed: bool = False, has_key: bool = False
) -> Found:
    text = canonical(record)
    return Found(digest(text), None if given is True else given, text, listed, has_key or call["key"] in text)


def _happened(verifier: Verifier, call: JsonObject, scope: JsonObject) -> Any:
    """What the expression selects. "No" takes a reading that has what is looked at: an error's answer has not."""
    if scope["output"] is None:
        return None  # the reading says itself that there is nothing
    path = _with_call(verifier.happened, call)
    try:
        found = select(path, scope)
        for tree, fields in filters(path):
            _check_fields(evaluate(tree, scope, Meter()), fields)
    except PathError as error:
        raise CannotTell(f"{verifier.happened!r} cannot be computed: {error.why}") from None
    return found


def _check_fields(records: Any, fields: Sequence[str]) -> None:
    """`CannotTell` where no record has a field that a filter looks at: such a filter finds none, whatever has happened."""
    things = [record for record in records if isinstance(record, dict)] if isinstance(records, list) else []
    for name in fields:
        if things and not any(name in record for record in things):
            raise CannotTell(
                f"no record has a field {name!r}; the first has: {', '.join(list(things[0])[:20])}"
            )


def _selected(expression: str, call: JsonObject, scope: JsonObject) -> Any:
    try:
        return select(_with_call(expression, call), scope)
    except Missing:
        return None  # as in JMESPath, what is not there is null
    except PathError as error:
        raise CannotTell(f"{expression!r} cannot be computed: {error.why}") from None


def _with_call(expression: str, call: JsonObject) -> str:
    """The expression with what it takes of the call put in, also inside filters, where JMESPath sees the item alone."""
    out, at = "", 0
    quoted = _QUOTED.match
    while at < len(expression):
        if (found := _CALL.match(expression, at)) is not None:
            path = (found["braced"] or found["bare"]).strip()
            out += _literal(_of_call(path.removeprefix("call").strip().removeprefix("."), call))
            at = found.end()
        elif (passed := quoted(expression, at)) is not None:
            out += passed.group()
            at = passed.end()
        else:
            word = re.compile(r"[A-Za-z_]\w*|.", re.DOTALL).match(expression, at)
            assert word is not None
            out += word.group()
            at = word.end()
    return out


def _literal(value: Any) -> str:
    return "`" + json.dumps(value, ensure_ascii=True).replace("`", "\\u0060") + "`"


def _of_call(path: str, call: JsonObject) -> Any:
    if not path:
        return call
    try:
        return select(path, call)
    except PathError:
        return None


_HEAD = re.compile(r"(\$\{|\{\{)\s*call\b")


def _as_paths(value: Any) -> Any:
    """References to the call in the form that references to an output have."""
    if isinstance(value, str):
        return _HEAD.sub(r"\1call.output", value)
    if isinstance(value, dict):
        return {name: _as_paths(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_paths(item) for item in value]
    return value


def _referred(verifier: Verifier) -> list[Reference]:
    return list(references(_as_paths(verifier.parameters)))


def _texts(verifier: Verifier) -> list[str]:
    return [
        verifier.happened,
        verifier.output or "",
        *(ref.raw.replace("call.output", "call") for ref in _referred(verifier)),
    ]


# ── declarations ──────────────────────────────────────────────────────────────


def expression_problems(verifier: Verifier) -> list[str]:
    """What is wrong with a declaration by itself, in words that help to mend it."""
    found: list[str] = []
    for name, text in (("happened", verifier.happened), ("output", verifier.output or "")):
        if not text:
            continue
        path = _with_call(text, _ANY_CALL)
        if problem := check_path(path):
            found.append(f"{name}: {problem}")
            continue
        heads = ("output",) if name == "happened" else ("record", "output")
        begins = {chain[0] for chain in chains(path)}
        if strange := sorted(begins - {*heads}):
            found.append(
                f"{name}: {text!r} looks at {', '.join(map(repr, strange))}; there is {', '.join(heads)} and call: "
                "what was read is under output, like output.payments[?key == call.key]"
            )
        elif name == "happened" and not begins:
            found.append(f"happened: {text!r} looks at nothing that was read; what was read is under output")
    if verifier.tool and not verifier.happened:
        found.append(
            "happened is missing: a JMESPath over {output, call} that is true if the call took effect, "
            "like output.payments[?key == call.key]"
        )
    for ref in _referred(verifier):
        raw = ref.raw.replace("call.output", "call")
        if ref.head != "call" or not ref.path:
            found.append(
                f"parameters: {raw} is none of ${{call.key}}, ${{call.parameters.NAME}}, ${{call.tool}}"
            )
        elif ref.problem:
            found.append(f"parameters: {ref.problem.replace('call.output', 'call')}")
    if verifier.after_secs is not None and verifier.after_secs < 0:
        found.append(f"after_secs is {in_digits(verifier.after_secs)}; it has to be 0 or more")
    return found


_ANY_CALL: JsonObject = {"key": "k", "tool": "t", "parameters": {}}


def problems_with(
    verifier: Verifier, tool: ToolSpec, reader: ToolSpec | None, nearest: Sequence[str] = ()
) -> list[str]:
    """What is wrong with a declaration among the tools that there are."""
    found = expression_problems(verifier)
    found += _unknown_names(verifier, tool)
    if reader is None:
        near = f"; the nearest are: {', '.join(nearest)}" if nearest else ""
        return [*found, f"there is no tool {verifier.tool!r} to read with{near}"]
    if reader.effect != "reads":
        found.append(
            f"{reader.id!r} is {reader.effect}: only a tool that reads may look, so that to look changes nothing"
        )
    elif reader.requires_approval:
        found.append(f"{reader.id!r} needs a person's yes; a reading has to go without")
    properties = reader.parameters.get("properties")
    if isinstance(properties, dict) and not reader.parameters.get("additionalProperties"):
        strange = [name for name in verifier.parameters if name not in properties]
        if strange:
            has = ", ".join(properties) or "none"
            found.append(f"{reader.id!r} has no parameter {', '.join(map(repr, strange))}; it has: {has}")
    missing = [name for name in reader.parameters.get("required", ()) if name not in verifier.parameters]
    if missing:
        found.append(f"{reader.id!r} needs {', '.join(map(repr, missing))}: give it under parameters")
    elif not _referred(verifier):
        found += schemas.parameter_problems(reader, verifier.parameters)[:5]
    return found


_PARAMETER = re.compile(r"\bcall\s*\.\s*(?:(parameters)\s*(?:\.\s*(\"?)([A-Za-z_][\w-]*)\2)?|([A-Za-z_]\w*))")


def _unknown_names(verifier: Verifier, tool: ToolSpec) -> Iterable[str]:
    """Names taken of the call that it cannot have: quietly null, they would fit what they should not."""
    properties = tool.parameters.get("properties")
    told = set()
    for text in _texts(verifier):
        for found in _PARAMETER.finditer(text):
            name, other = found[3], found[4]
            if other and other not in ("key", "tool"):
                told.add(f"call.{other}: of the call there is call.key, call.parameters.NAME and call.tool")
            elif name and isinstance(properties, Mapping) and properties and name not in properties:
                told.add(
                    f"call.parameters.{name}: {tool.id!r} has no such parameter; it has: {', '.join(properties)}"
                )
    return sorted(told)
