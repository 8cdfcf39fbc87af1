"""The topic of audit records, asked whether it is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replan.cli.doctor.findings import Finding
from replan.cli.terminal.words import counted

if TYPE_CHECKING:
    from replan.config import Settings


def topic(settings: Settings) -> Iterator[Finding]:
    """One finding, where `[kafka_service]` is enabled."""
    section = settings.kafka_service
    if not section.enabled:
        return
    from replan.errors import ConfigError
    from replan.projections.kafka import NotConfirmed, look

    facts = {"topic": section.topic, "brokers": list(section.brokers)}
    where = f"the topic {section.topic!r} of {', '.join(section.brokers)}"
    try:
        parts = look(section)
    except ConfigError as error:
        yield Finding("audit", "problem", str(error), "correct that", facts)
    except NotConfirmed as error:
        todo = "start it, or correct [kafka_service]; nothing is lost meanwhile, and no task waits"
        yield Finding("audit", "problem", str(error), todo, facts)
    else:
        if parts:
            told = f"{where} has {counted(parts, 'partition')}"
            yield Finding("audit", "ok", told, facts={**facts, "partitions": parts})
        else:
            yield Finding("audit", "problem", f"there is no {where.removeprefix('the ')}", "create it", facts)
