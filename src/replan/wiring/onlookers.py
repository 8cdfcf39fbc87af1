"""Who is told what tasks do: audit records, the debug log, traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from replan.config import Settings
from replan.core.secrets import KnownSecrets
from replan.errors import ConfigError
from replan.ports import Consumer

if TYPE_CHECKING:
    from replan.projections.debug_log import DebugLog
    from replan.projections.traces import Traces


def audit_consumers(settings: Settings, secrets: KnownSecrets) -> list[Consumer]:
    """Those that the settings name; `ConfigError` for what cannot be."""
    consumers: list[Consumer] = []
    if settings.kafka_service.enabled:
        consumers.append(kafka_audit(settings, secrets))
    if (file := settings.audit.file) is not None:
        from replan.projections.audit_file import AuditFile

        section = settings.audit
        most = int(section.file_max_mb * 1_000_000)
        path = Path(file).expanduser()
        consumers.append(AuditFile(path, max_bytes=most, keep=section.file_keep, masked=secrets.masked))
    return consumers


def kafka_audit(settings: Settings, secrets: KnownSecrets) -> Consumer:
    """The topic that the settings name, whether or not it is enabled."""
    from replan.projections.kafka import KafkaAudit

    return KafkaAudit(settings.kafka_service, masked=secrets.masked)


def debug_log_of(settings: Settings) -> DebugLog | None:
    """What writes down what tasks do for developers, where that is wanted."""
    if not settings.debug.save_debug_log:
        return None
    from replan.projections.debug_log import DebugLog

    return DebugLog(Path(settings.debug.debug_log_file))


def traces_of(settings: Settings) -> Traces | None:
    """What exports traces of tasks, where `[tracing] otlp_endpoint` says whereto."""
    if settings.tracing.otlp_endpoint is None:
        return None
    try:
        from replan.projections.traces import traces_of
    except ImportError as error:
        raise ConfigError(
            f"[tracing] otlp_endpoint needs more packages ({error.name} is not here): pip install 'replan[tracing]'"
        ) from None
    return traces_of(settings)
