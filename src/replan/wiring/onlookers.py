"""Who is told what tasks do: audit records, webhooks, the debug log, traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from replan.config import Settings
from replan.core.secrets import KnownSecrets
from replan.errors import ConfigError, InputError, TaskNotFound
from replan.ports import Consumer, NotTaken, TaskIndex

if TYPE_CHECKING:
    import httpx2

    from replan.config.sections import WebhookEndpoint
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


def webhooks_of(settings: Settings, secrets: KnownSecrets, store: TaskIndex) -> list[Consumer]:
    """Those that the settings name; `ConfigError` for what cannot be."""
    return [
        _webhook(name, endpoint, secrets, store) for name, endpoint in settings.webhooks.endpoints.items()
    ]


def _webhook(name: str, endpoint: WebhookEndpoint, secrets: KnownSecrets, store: TaskIndex) -> Consumer:
    from replan.connections import certificates
    from replan.core.secrets.signing import signing_key
    from replan.projections.webhooks import Webhook, Whose
    from replan.tools.network.addresses import AddressRules
    from replan.tools.network.client import guarded_client

    try:
        rules = AddressRules(endpoint.allow_private, endpoint.allow_hosts)
    except InputError as error:
        raise ConfigError(f"[webhooks.endpoints.{name}] allow_hosts: {error}") from None

    def forbidden(where: str, why: str, *, sent: bool = False) -> NotTaken:
        """No redirect is followed: it is the address itself."""
        return NotTaken(
            f"{where} {why}, which webhooks may not reach; where it is meant, allow it with allow_hosts or allow_private "
            f"in [webhooks.endpoints.{name}]"
        )

    def client() -> httpx2.AsyncClient:
        secs = endpoint.timeout_secs
        return guarded_client(rules, timeout=secs, verify=certificates(), refusal=forbidden)

    async def whose(task_id: str) -> Whose | None:
        try:
            summary = await store.summary(task_id)
        except TaskNotFound:
            return None
        return Whose(summary.tenant, summary.description)

    keys = [
        key for text in (endpoint.secret, endpoint.previous_secret) if text and (key := signing_key(text))
    ]
    return Webhook(
        name, endpoint.url, keys, client=client, whose=whose, events=endpoint.events, tenants=endpoint.tenants,
        timeout_secs=endpoint.timeout_secs, masked=secrets.masked,
    )  # fmt: skip


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
