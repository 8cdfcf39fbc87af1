"""Values that may be seen masked, while this process can still use them."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import is_
from typing import Any

from replan.core.types import Frozen

MASK = "***"
_MASKED = re.compile(r"(?:\w+[ :])?\*{3}")
"""A mask, or what stays of `Bearer …` and `user:…`: three asterisks within a password are a part of it."""


def is_mask(text: str) -> bool:
    """True for what stands in the place of a secret: no value of its own."""
    return _MASKED.fullmatch(text.strip()) is not None


class SecretLost(Exception):
    """A value is needed that only an earlier process knew: its log holds a mask."""


class Masked(str):
    """A text as it may be seen; this process still has what it stands for. `SecretLost` if none has it any more."""

    __slots__ = ("_real",)
    _real: Any

    @classmethod
    def of(cls, shown: str, real: Any) -> Masked:
        made = cls(shown)
        made._real = real
        return made

    @property
    def real(self) -> Any:
        try:
            return self._real
        except AttributeError:
            raise SecretLost from None

    @property
    def known(self) -> bool:
        return hasattr(self, "_real")

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # what leaves the process is what may be seen


def _walked(value: Any, of: Callable[[Masked], Any]) -> Any:
    """The value with `of` in place of what is masked; the same object where nothing is."""
    if isinstance(value, Masked):
        return of(value)
    if isinstance(value, dict):
        made = {
            of(name) if isinstance(name, Masked) else name: _walked(item, of) for name, item in value.items()
        }
        same = all(map(is_, made, value)) and all(map(is_, made.values(), value.values()))
        return value if same else made
    if isinstance(value, list):
        items = [_walked(item, of) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def reveal(value: Any) -> Any:
    """The value as a tool gets it. Raises `SecretLost`."""
    return _walked(value, lambda masked: masked.real)


def reveal_known(value: Any) -> Any:
    """The same, where what is lost stays masked."""
    return _walked(value, lambda masked: masked.real if masked.known else masked)


def plain(value: Any) -> Any:
    """The same for readers that know no texts but plain ones: what is lost becomes its mask."""
    return _walked(value, lambda masked: masked.real if masked.known else str(masked))


def holds_lost(value: Any) -> bool:
    if isinstance(value, dict):
        named = Masked in map(type, value) and any(map(is_lost, value))
        return named or any(map(holds_lost, value.values()))
    if isinstance(value, list):
        return any(map(holds_lost, value))
    return is_lost(value)


def is_lost(value: Any) -> bool:
    """True of a text that nobody knows any more."""
    return isinstance(value, Masked) and not value.known


def with_masks(plain: Any, before: Any) -> Any:
    """A value that went through JSON, with what was masked in it before. `before`: the value as it was."""
    if isinstance(before, Masked):
        return before
    if isinstance(before, dict) and isinstance(plain, dict):
        pairs = zip(plain.items(), before.items(), strict=True)
        return {
            was if isinstance(was, Masked) else name: with_masks(item, old)
            for (name, item), (was, old) in pairs
        }
    if isinstance(before, list | tuple) and isinstance(plain, list) and len(before) == len(plain):
        return [with_masks(item, was) for item, was in zip(plain, before, strict=True)]
    return plain


def holds_masked(value: Any) -> bool:
    if isinstance(value, dict):
        return Masked in map(type, value) or any(map(holds_masked, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_masked, value))
    return isinstance(value, Masked)


def lost(value: Any) -> Any:
    """The value from a log, with what was masked there marked as lost."""
    if isinstance(value, Masked):
        return value
    if isinstance(value, str):
        return Masked(value) if MASK in value else value
    if isinstance(value, dict):
        return {lost(name) if type(name) is str else name: lost(item) for name, item in value.items()}
    if isinstance(value, list):
        return [lost(item) for item in value]
    if isinstance(value, tuple):
        return tuple(lost(item) for item in value)
    if isinstance(value, Frozen):
        changed = {name: new for name, old in value.__dict__.items() if (new := lost(old)) is not old}
        return value.model_copy(update=changed) if changed else value
    return value


def as_seen(value: Any) -> tuple[Any, bool]:
    """What somebody has given who sees masks alone, with what is masked in it marked as lost; and whether anything is."""
    seen = lost(value)
    return seen, holds_lost(seen)


def without_masks(value: Any) -> Any:
    """What a program outside has given, in which a text that is nothing but a mask is no value: it is marked as lost."""
    if isinstance(value, str):
        return Masked(value) if not isinstance(value, Masked) and is_mask(value) else value
    if isinstance(value, dict):
        return {name: without_masks(item) for name, item in value.items()}
    return [without_masks(item) for item in value] if isinstance(value, list) else value
