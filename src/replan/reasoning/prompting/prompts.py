"""Prompts are files with declared variables; a file that does not add up is refused when it is loaded.

A prompt file begins with a front matter (`name`, `role`, `schema`, `variables`), followed by the parts
`=== instructions` and `=== user`. A variable is written `<<name>>` and filled in once: what is put in is not
looked at again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple, get_args

from replan.core.types import Role
from replan.errors import ReplanError

STYLES = ("standard", "small")
_OF_ONE_STYLE = {"standard": frozenset[str](), "small": frozenset({"step"})}
"""What models of a style are not asked: a small one does no step of a plan."""

_VARIABLE = re.compile(r"<<([a-z_]+)>>")
_ALONE = re.compile(r"(?m)^<<(\w+)>>\n\n?")
"""A variable on a line of its own."""
_FILE = re.compile(
    r"\A---\n(?P<front>.*?)\n---\n+=== instructions\n(?P<instructions>.*?)\n=== user\n(?P<user>.*)\Z",
    re.DOTALL,
)
_KEYS = {"name", "role", "schema", "variables"}


class PromptInvalid(ReplanError):
    """A prompt file, or what it is given, does not add up."""


class Rendered(NamedTuple):
    """A prompt filled in. `hash` names the version of its file, whatever is filled in."""

    name: str
    hash: str
    instructions: str
    user: str


class Prompt(NamedTuple):
    """A prompt file as read and checked."""

    name: str
    role: Role
    schema: str
    variables: frozenset[str]
    instructions: str
    user: str
    hash: str

    def render(self, **values: str) -> Rendered:
        """The prompt with every variable filled in; `PromptInvalid` unless exactly the declared ones are given."""
        if missing := self.variables - values.keys():
            raise PromptInvalid(f"prompt {self.name}: no value for {', '.join(sorted(missing))}")
        if extra := values.keys() - self.variables:
            raise PromptInvalid(f"prompt {self.name}: has no variable {', '.join(sorted(extra))}")

        def fill(text: str) -> str:
            if not self.name.startswith("small/"):  # what is not there leaves no gap; recordings have theirs
                text = _ALONE.sub(lambda found: found[0] if values[found[1]].strip() else "", text)
            return _VARIABLE.sub(lambda found: values[found.group(1)], text).strip()

        return Rendered(self.name, self.hash, fill(self.instructions), fill(self.user))


def parse_prompt(text: str, where: str) -> Prompt:
    """A prompt from the text of its file; `PromptInvalid` names the fault and the file."""
    text = text.replace("\r\n", "\n")
    parts = _FILE.match(text)
    if parts is None:
        raise PromptInvalid(f"prompt {where}: wants a front matter, `=== instructions` and `=== user`")
    front = dict(_front_matter(parts["front"], where))
    if front.keys() != _KEYS:
        raise PromptInvalid(
            f"prompt {where}: the front matter has to have exactly {', '.join(sorted(_KEYS))}"
        )
    if front["role"] not in get_args(Role):
        raise PromptInvalid(f"prompt {where}: role {front['role']!r} is none of {', '.join(get_args(Role))}")
    declared = frozenset(name.strip() for name in front["variables"].split(",") if name.strip())
    used = frozenset(_VARIABLE.findall(parts["instructions"] + parts["user"]))
    if used - declared:
        raise PromptInvalid(f"prompt {where}: uses {', '.join(sorted(used - declared))} without declaring it")
    if declared - used:
        raise PromptInvalid(
            f"prompt {where}: declares {', '.join(sorted(declared - used))} and does not use it"
        )
    role: Role = front["role"]  # type: ignore[assignment]  # one of them, by the check above
    version = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Prompt(
        front["name"], role, front["schema"], declared, parts["instructions"], parts["user"], version
    )


def _front_matter(text: str, where: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            raise PromptInvalid(f"prompt {where}: the front matter line {line!r} is not `key: value`")
        yield key.strip(), value.strip()


@lru_cache(maxsize=64)
def load(name: str, style: str) -> Prompt:
    """The prompt of that name in that style."""
    path = f"{style}/{name}.md"
    try:
        text = (files("replan.reasoning") / "prompts" / style / f"{name}.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PromptInvalid(f"there is no prompt {path}") from None
    prompt = parse_prompt(text, path)
    if prompt.name != f"{style}/{name}":
        raise PromptInvalid(f"prompt {path}: its name is {prompt.name!r} and has to be {style}/{name}")
    return prompt


def check_all() -> tuple[Prompt, ...]:
    """Load every prompt there is; `PromptInvalid` for the first that does not add up, or lacks a style."""
    folder = files("replan.reasoning") / "prompts"
    names = {style: _names(folder / style) for style in STYLES}
    for style in STYLES:
        others = set().union(*names.values()) - names[style] - _OF_ONE_STYLE[style]
        if others:
            raise PromptInvalid(f"style {style} has no prompt {', '.join(sorted(others))}")
    return tuple(load(name, style) for style in STYLES for name in sorted(names[style]))


@lru_cache(maxsize=1)
def digest_of_all() -> str:
    """The version of all prompts together."""
    return hashlib.sha256(" ".join(prompt.hash for prompt in check_all()).encode()).hexdigest()[:16]


def _names(folder: object) -> set[str]:
    return {entry.name.removesuffix(".md") for entry in folder.iterdir() if entry.name.endswith(".md")}  # type: ignore[attr-defined]


def fence(label: str, text: str) -> str:
    """The text between two marks that do not occur in it: it cannot end its own fence.

    Very long rows of `~` are broken up, so that the marks stay short.
    """
    text = _LONG_ROW.sub(_broken_up, text)
    mark = "~" * max(3, 1 + max(map(len, _ROW.findall(text)), default=0))
    return f"{mark} {label}\n{text}\n{mark}"


_ROW = re.compile("~{3,}")
_LONGEST_ROW = 80
_LONG_ROW = re.compile(f"~{{{_LONGEST_ROW + 1},}}")


def _broken_up(row: re.Match[str]) -> str:
    return " ".join(row[0][at : at + _LONGEST_ROW] for at in range(0, len(row[0]), _LONGEST_ROW))
