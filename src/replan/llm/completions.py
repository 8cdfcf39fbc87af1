"""Chat completions, whole or in pieces, brought into the protocol's own form: no answer is lost by what stands around it.

An error inside an answer of status 200 gets its status, also beside words of the model; an answer without `choices` becomes an empty one; the arguments of a call
are text, also where they came as an object; what was used is told in whole numbers; of several answers the first counts; a field
of another kind than the protocol's, which nobody here needs, is left out.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replan.core.types import JsonObject

HEAD: Mapping[str, Any] = {"id": "", "object": "chat.completion", "created": 0, "model": ""}
"""What every answer, and every piece of one, has beside what it says; and what stands for what is no such value."""
_CHUNK = "chat.completion.chunk"
_NEEDED_BY_NOBODY = ("system_fingerprint", "service_tier")
_IN_CHOICES = ("logprobs",)
_IN_MESSAGES: Mapping[str, type] = {
    "refusal": str, "tool_calls": list, "function_call": dict, "reasoning_content": str, "reasoning": str,
}  # fmt: skip
_BESIDE_WORDS = ("audio", "annotations")
_ENDS = ("stop", "length", "tool_calls", "content_filter", "function_call")
_IS_CUT = re.compile("length|max_tokens", re.IGNORECASE)
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_MOST_DIGITS = 20
_UNKNOWN = 502
"""The status of an error that tells none: the other side could not do it now."""


def completion(content: bytes, hold: Callable[[str], str] = lambda text: text) -> tuple[int, bytes]:
    """The status and the body that a whole answer of status 200 means.

    `hold`: keeps a large text from whoever reads the body, and gives what stands there for it.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        body = json.loads(content)
    except ValueError:
        return 200, content
    if not isinstance(body, dict):
        return 200, content
    if (error := error_in(body)) is not None:
        return status_of(error), json.dumps({"error": error}).encode()
    listed = _choices_listed(body, numbered=True) if body.get("choices") is not None else False
    if body.get("choices"):
        changed = [
            listed,
            _of_first_choice(body),
            _head_in_form(body, HEAD["object"]),
            _choices_in_form(body),
            _calls_listed(body),
            _arguments_made_text(body),
            _usage_counted(body),
            _texts_held(body, hold),
        ]
        return 200, json.dumps(body).encode() if any(changed) else content
    nothing = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}
    _head_in_form(body, HEAD["object"])
    _usage_counted(body)
    return 200, json.dumps({**body, "choices": [nothing]}).encode()


def error_in(body: Any) -> JsonObject | None:
    """The error that an answer, or a piece of one, tells of, whatever stands beside it: its own, that of its choice, or an end that is none."""
    if not isinstance(body, dict):
        return None
    choice = next((one for one in _listed(body, "choices") if isinstance(one, dict)), {})
    message = _held(choice, "message") or _held(choice, "delta") or {}
    for told in (body.get("error"), body.get("errors"), choice.get("error"), message.get("error")):
        told = next(iter(told), None) if isinstance(told, list) else told
        if isinstance(told, str) and told.strip():
            return {"message": told}
        told = inner if (inner := _held(told, "error")) is not None else told
        if isinstance(told, dict) and any(told.values()):
            return told
    status, end = body.get("status"), choice.get("finish_reason")
    if type(status) is int and status >= 400:
        return {"message": str(body.get("message") or "it tells of an error"), "status": status}
    for word in (status, end):
        if isinstance(word, str) and word.lower() in _FAILED:
            return {"message": f"its answer ended with {word!r}"}
    return None


_FAILED = frozenset({"error", "failed", "abort", "aborted", "cancelled", "canceled"})


def status_of(error: Any) -> int:
    """The HTTP status that an error object speaks of."""
    found = error if isinstance(error, Mapping) else {}
    for name in ("status", "code", "status_code", "http_status"):
        value = found.get(name)
        number = int(value) if isinstance(value, str) and value.isdigit() else value
        if isinstance(number, int) and not isinstance(number, bool) and 400 <= number <= 599:
            return number
    return _UNKNOWN


def chunk_in_form(event: JsonObject) -> tuple[bool, bool]:
    """Bring a piece of a stream into its form; whether that changed it, and whether anything of the one answer is left."""
    listed = _choices_listed(event) if event.get("choices") is not None else False
    fewer = _of_first_choice(event, strict=True)
    if fewer and not event["choices"] and not event.get("usage"):
        return True, False
    changed = [
        listed,
        fewer,
        _head_in_form(event, _CHUNK),
        _choices_in_form(event),
        _calls_listed(event),
        _arguments_made_text(event),
        _usage_counted(event),
    ]
    return any(changed), True


class CallsSaidOnce:
    """The calls of one stream. Some servers say the name of each with every piece, or all of it once more at the end; readers string
    the pieces together."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._arguments: dict[Any, tuple[list[str], int]] = {}

    def repeated(self, event: JsonObject) -> bool:
        """Leave out of a piece what an earlier one has said of its call already, and say whether there was any."""
        changed = False
        for choice in _listed(event, "choices"):
            for call in _listed(_held(choice, "delta"), "tool_calls"):
                function = _held(call, "function")
                if function is not None:
                    changed = self._left_out(call.get("index"), function) or changed
        return changed

    def _left_out(self, number: Any, function: JsonObject) -> bool:
        key = number if isinstance(number, int) else 0
        name, said = function.get("name"), function.get("arguments")
        again = bool(name) and self._names.get(key) == name
        if again:
            del function["name"]
        elif isinstance(name, str) and name:
            self._names.setdefault(key, name)
        if not isinstance(said, str) or not said:
            return again
        pieces, size = self._arguments.get(key, ([], 0))
        if again and len(said) == size and said.startswith("{") and "".join(pieces) == said:
            function["arguments"] = ""
            return True
        pieces.append(said)
        self._arguments[key] = (pieces, size + len(said))
        return again


def ends(event: Any) -> bool:
    """True if a piece of a stream says that the answer is whole."""
    return any(isinstance(one, dict) and one.get("finish_reason") for one in _listed(event, "choices"))


def _head_in_form(body: Any, kind: str) -> bool:
    """Put something in the place of what is no value of its field, and of what a whole answer lacks."""
    wanted = (
        {**HEAD, "object": kind}
        if kind != _CHUNK
        else {name: none for name, none in HEAD.items() if name in body}
    )
    odd = {name: none for name, none in wanted.items() if type(body.get(name)) is not type(none)}
    if body.get("object", kind) != kind:
        odd["object"] = kind
    body.update(odd)
    # of the pieces of a stream nobody reads what texts these hold
    left_out = [
        name
        for name in _NEEDED_BY_NOBODY
        if body.get(name) is not None and (kind != _CHUNK or not isinstance(body[name], str))
    ]
    for name in left_out:
        del body[name]
    return bool(odd or left_out)


def _choices_listed(body: JsonObject, *, numbered: bool = False) -> bool:
    """Make a list of objects of the choices. What is no number of one becomes one; so does what is missing, if all are to be `numbered`."""
    told = body["choices"]
    choices = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    changed = bool(choices != told)
    body["choices"] = choices
    for choice in choices:
        number: Any = choice.get("index", None if numbered else 0)
        if type(number) is not int:
            is_written = isinstance(number, str) and number.isascii() and number.isdigit()
            choice["index"] = int(number) if is_written and len(number) < _MOST_DIGITS else 0
            changed = True
    return changed


def _choices_in_form(body: Any) -> bool:
    """The same of what stands around what a model says. A reason to end that nobody knows is an end."""
    changed = False
    for choice in _listed(body, "choices"):
        is_piece = body.get("object", _CHUNK) == _CHUNK
        name, other = ("delta", "message") if is_piece else ("message", "delta")
        if not isinstance(choice.get(name), dict):
            said, text = _held(choice, other), choice.get("text")
            if said is None and isinstance(text, str):  # as was answered before there were chats
                said = {"content": text}
            if said is not None or is_piece:
                choice.pop(other, None)
                choice[name] = said or {}
                changed = True
        message = _held(choice, "delta") or _held(choice, "message") or {}
        odd = [
            name
            for name, told in message.items()
            if told is not None
            and (name in _BESIDE_WORDS or (name in _IN_MESSAGES and not isinstance(told, _IN_MESSAGES[name])))
        ]
        for name in odd:
            del message[name]
        around = [name for name in _IN_CHOICES if choice.get(name) is not None]
        for name in around:
            del choice[name]
        right: JsonObject = {}
        if choice.get("finish_reason") and choice["finish_reason"] not in _ENDS:
            right["finish_reason"] = "length" if _IS_CUT.search(str(choice["finish_reason"])) else "stop"
        elif not is_piece and not choice.get("finish_reason") and any(map(is_unclosed, _said(message))):
            right["finish_reason"] = "length"  # it tells no end, and has come to none
        choice.update(right)
        spoken: JsonObject = {}
        if message and message.get("role", "assistant" if "delta" in choice else None) != "assistant":
            spoken["role"] = "assistant"
        if isinstance(content := message.get("content"), dict):
            spoken["content"] = json.dumps(content, ensure_ascii=False)
        message.update(spoken)
        changed = changed or bool(odd or around or right or spoken)
    return changed


def _said(message: JsonObject) -> Iterator[str]:
    calls = [_held(call, "function") for call in _listed(message, "tool_calls")]
    for part, name in ((message, "content"), *((call, "arguments") for call in calls)):
        if part is not None and isinstance(text := part.get(name), str):
            yield text


_TOKEN = re.compile(r'[{}]|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


def is_unclosed(text: str) -> bool:
    """True of a text that ends within an object. One that is closed and no strict JSON is for whoever reads it."""
    at = text.find("{")
    while at >= 0:
        depth = 0
        for found in _TOKEN.finditer(text, at):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if not depth:
                break
        else:
            return True
        at = text.find("{", found.end())
    return False


def _of_first_choice(body: Any, *, strict: bool = False) -> bool:
    """Leave out further answers that nobody has asked for, and say whether there were any.

    Unless `strict`, one that is the only one is the answer whatever its number.
    """
    choices = _listed(body, "choices")
    first = [one for one in choices if not isinstance(one, dict) or one.get("index") in (0, None)]
    if len(first) == len(choices) or not (first or strict):
        return False
    body["choices"] = first
    return True


def _calls_listed(body: Any) -> bool:
    """List the one call that an answer makes in the form from before there were several, and say whether there was one."""
    made = False
    for choice in _listed(body, "choices"):
        message = _held(choice, "message") or _held(choice, "delta")
        called = message.pop("function_call", None) if message is not None else None
        if message is None or not isinstance(called, dict):
            continue
        made = True
        if not message.get("tool_calls"):
            first = {"id": "call_0"} if called.get("name") else {}  # what goes on names nothing
            message["tool_calls"] = [{"index": 0, "type": "function", "function": called, **first}]
        if choice.get("finish_reason") == "function_call":
            choice["finish_reason"] = "tool_calls"
    return made


def _arguments_made_text(body: Any) -> bool:
    """Write the arguments of calls as text, and say whether any had to be."""
    made = False
    for choice in _listed(body, "choices"):
        for call in _listed(_held(choice, "message") or _held(choice, "delta"), "tool_calls"):
            function = _held(call, "function")
            if function is not None and not isinstance(arguments := function.get("arguments", ""), str):
                function["arguments"] = "" if arguments is None else json.dumps(arguments)
                made = True
    return made


def _texts_held(body: Any, hold: Callable[[str], str]) -> bool:
    """Put what `hold` gives in the place of what the model says, in words and in calls; whether that was another text."""
    changed = False
    for choice in _listed(body, "choices"):
        message = _held(choice, "message")
        calls = [_held(call, "function") for call in _listed(message, "tool_calls")]
        for part, name in ((message, "content"), *((call, "arguments") for call in calls)):
            if part is not None and isinstance(text := part.get(name), str):
                part[name] = hold(text)
                changed = changed or part[name] is not text
    return changed


def _usage_counted(body: Any) -> bool:
    """Write what was used as whole numbers, and say whether it was told otherwise; what counts nothing is 0."""
    if not isinstance(body, dict) or body.get("usage") is None:
        return False
    usage = _held(body, "usage")
    if usage is None:
        body["usage"] = None  # it tells nothing
        return True
    odd = {name: usage.get(name) for name in _COUNTS if not _is_count(usage.get(name))}
    usage.update({name: _counted(told) for name, told in odd.items()})
    details = [name for name, told in usage.items() if name.endswith("_tokens_details") and _are_odd(told)]
    for name in details:
        del usage[name]
    return bool(odd or details)


def _are_odd(details: Any) -> bool:
    if details is None:
        return False
    return not isinstance(details, dict) or not all(one is None or _is_count(one) for one in details.values())


def _is_count(told: Any) -> bool:
    return type(told) is int and told >= 0


def _counted(told: Any) -> int:
    if isinstance(told, str) and told.isascii() and told.isdigit() and len(told) < _MOST_DIGITS:
        return int(told)
    fits = isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told < math.inf
    return math.ceil(told) if fits else 0


def _held(value: Any, name: str) -> dict[str, Any] | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else None


def _listed(value: Any, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
