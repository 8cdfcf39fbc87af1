"""The reference has everything that there is: every event with its fields, every setting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from documents import ROOT

import pytest_replan
from replan import testing
from replan.cli.commands.history import Drive, as_json
from replan.cli.doctor.findings import Finding
from replan.config.sections import Section, Settings
from replan.core import events as e
from replan.ports import ConsumerState, TaskSummary
from replan.run.service.forking import Kin
from replan.run.service.pruning import Pruned, PrunedTask
from replan.store.transfer.incoming import Imported
from replan.testing import Seen

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


def printed(command: str) -> set[str]:
    """The fields that the reference names for `--json` of a command, also those within others."""
    text = (REFERENCE / "command.md").read_text()
    (row,) = re.findall(rf"^\| `{command}`[^|]*\| (.*) \|$", text, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))


def test_what_commands_print_as_json_is_in_the_reference() -> None:
    history = [e.Record(1, "t", 1.0, 0, e.TaskSubmitted(description="x"))]

    assert {*TaskSummary._fields, "waits_for"} <= printed("tasks list")
    assert as_json(history, Kin("o", 1, {"f": 2})).keys() | Drive._fields <= printed("tasks show")
    assert {*Pruned._fields, *PrunedTask._fields, "removed"} <= printed("tasks prune")
    assert set(Imported._fields) <= printed("tasks import")
    assert {*ConsumerState._fields, "consumers"} <= printed("outbox list")
    assert {"ok", "checks", *(field.name for field in fields(Finding))} <= printed("doctor")


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


def test_everything_public_for_tests_is_in_the_reference_and_says_what_it_is() -> None:
    text = (REFERENCE / "testing.md").read_text()
    assert [name for name in testing.__all__ if f"`{name}`" not in text] == []
    assert [name for name in testing.__all__ if not getattr(testing, name).__doc__] == []
    fixtures = re.findall(
        r"^@pytest\.fixture\ndef (\w+)", Path(pytest_replan.__file__).read_text(), re.MULTILINE
    )
    assert fixtures
    assert [name for name in fixtures if f"`{name}`" not in text] == []
    assert [name for name in dir(Seen) if name.startswith("assert_") and f"`{name}(" not in text] == []
