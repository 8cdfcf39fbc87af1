"""The page's own words: in each language the same, and each that is asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

STATIC = Path(__import__("replan.page", fromlist=["page"]).__file__).parent / "static"
WORDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted((STATIC / "words").glob("*.json"))
}
CODE = "\n".join(path.read_text("utf-8") for path in (STATIC / "js").rglob("*.js"))
_SAID = re.compile(r"""(?:\bt\(|\bkey: )"([a-z][\w.-]*)\"""")
_MADE = re.compile(r"""\bt\(`([a-z][\w.]*)\.\$\{""")


def forms(text: Any) -> list[str]:
    return list(text.values()) if isinstance(text, dict) else [text]


def test_each_language_has_the_same_keys_with_the_same_places() -> None:
    english, chinese = WORDS["en"], WORDS["zh"]
    assert english.keys() == chinese.keys()
    for key in english:
        places = [
            {name for form in forms(words[key]) for name in re.findall(r"\{(\w+)\}", form)}
            for words in (english, chinese)
        ]
        assert places[0] - {"count"} == places[1] - {"count"}, key
        assert all(form.strip() for words in (english, chinese) for form in forms(words[key])), key


def test_every_key_that_the_code_names_is_there() -> None:
    asked = set(_SAID.findall(CODE))
    assert len(asked) > 100
    assert sorted(asked - WORDS["en"].keys()) == []
    for beginning in set(_MADE.findall(CODE)):
        assert any(key.startswith(beginning + ".") for key in WORDS["en"]), beginning


@pytest.mark.parametrize("name", ["status", "state", "effect", "category", "strategy", "event"])
def test_every_word_of_the_service_has_words(name: str) -> None:
    from typing import get_args

    from replan.core import types
    from replan.core.events import KINDS
    from replan.core.reflection import STRATEGY_TYPES
    from replan.core.state.task import TaskStatus

    said = {
        "status": get_args(TaskStatus),
        "effect": get_args(types.Effect),
        "category": get_args(types.Category),
        "strategy": STRATEGY_TYPES,
        "event": [kind for kind, made in KINDS.items() if made.stored],
        "state": re.findall(r'"(\w+)"', CODE[CODE.index("export const STATES") :].partition("];")[0]),
    }[name]
    assert said
    assert [one for one in said if f"{name}.{one}" not in WORDS["en"]] == []
