"""The reference has everything that there is: every event with its fields, every setting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from documents import ROOT

from replan.config.sections import Section, Settings
from replan.core import events as e

REFERENCE = ROOT / "docs" / "reference"
KINDS = {kind.model_fields["type"].default: kind for kind in get_args(e.KnownEvent) if kind.stored}


def rows() -> dict[str, str]:
    """What the table of events says, by type."""
    found: dict[str, str] = {}
    for line in (REFERENCE / "events.md").read_text().splitlines():
        if row := re.match(r"\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", line):
            found.update(dict.fromkeys(re.findall(r"`(\w+)`", row[1]), row[2]))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_stored_event_is_in_the_reference(kind: str) -> None:
    told = rows()
    row = told.get(kind, "")
    if "as above" in row or "as a call" in row:
        row += told["call_started"]
    fields = KINDS[kind].model_fields.keys() - {"type", "masked"}  # which are told of all of them
    assert kind in told
    assert sorted(name for name in fields if not re.search(rf"\b{name}\b", row)) == []


def settings_of(section: type[Section], above: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield f"{above}{name}"
        for part in parts_of(field.annotation):
            yield from settings_of(part, f"{above}{name}.")


def parts_of(annotation: Any) -> list[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [part for inner in get_args(annotation) for part in parts_of(inner)]


@pytest.mark.parametrize("setting", sorted(set(settings_of(Settings))))
def test_every_setting_is_in_the_reference(setting: str) -> None:
    text = (REFERENCE / "configuration.md").read_text()
    assert re.search(rf"\b{setting.rpartition('.')[2]}\b", text)
