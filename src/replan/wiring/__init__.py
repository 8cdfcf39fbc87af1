"""Settings in, running parts out: the only place that names concrete classes."""

from replan.wiring.addresses import model_endpoint, tool_endpoints
from replan.wiring.discovery import Discovery, discovery_of, registration_of
from replan.wiring.kinds import Paths, open_kinds
from replan.wiring.models import LOCAL, ROLES, ModelChoice, Models, providers_of
from replan.wiring.onlookers import audit_consumers, debug_log_of, kafka_audit, traces_of, webhooks_of
from replan.wiring.process import SystemClock, Ulids, driver_name
from replan.wiring.store import (
    database,
    database_path,
    default_database,
    is_postgres,
    need_queue,
    open_store,
    queue_of,
)
from replan.wiring.tools import ToolLike, configured_sources, open_tools

__all__ = [
    "LOCAL",
    "ROLES",
    "Discovery",
    "ModelChoice",
    "Models",
    "Paths",
    "SystemClock",
    "ToolLike",
    "Ulids",
    "audit_consumers",
    "configured_sources",
    "database",
    "database_path",
    "debug_log_of",
    "default_database",
    "discovery_of",
    "driver_name",
    "is_postgres",
    "kafka_audit",
    "model_endpoint",
    "need_queue",
    "open_kinds",
    "open_store",
    "open_tools",
    "providers_of",
    "queue_of",
    "registration_of",
    "tool_endpoints",
    "traces_of",
    "webhooks_of",
]
