"""What there is to say about keys beside their types: secret, moved, without use any more, or not yet."""

from __future__ import annotations

from replan.config import sections as s
from replan.config.sections import Section, Settings, ToolRuleTable

SECRETS = frozenset(
    {
        ("llm", "api_key"),
        ("tool_service", "token"),
        ("consul", "token"),
        ("kafka_service", "sasl_password"),
        ("kafka_service", "key_password"),
    }
)
"""Never shown, not even in part."""

OPEN = frozenset({"oidc", "limits"})
"""Sections in which nothing is secret, whatever its tables have for names."""

SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}

NAMED = frozenset(
    {
        ("llm", "limits"),
        ("llm", "prices"),
        ("llm", "providers"),
        ("tools", "rules"),
        ("tools", "mcp_servers"),
        ("tools", "openapi"),
        ("webhooks", "endpoints"),
    }
)
"""Keys that hold tables by name: layers add to each other, name by name and key by key."""

TABLES: dict[tuple[str, str], type[Section]] = {
    ("tools", "rules"): ToolRuleTable,
    ("llm", "limits"): s.ModelLimit,
    ("llm", "prices"): s.ModelPrice,
    ("llm", "providers"): s.ModelProvider,
    ("webhooks", "endpoints"): s.WebhookEndpoint,
}
"""Keys that hold tables by name, and what is in each."""

IGNORED: dict[str, frozenset[str]] = {
    "database_service": frozenset(
        {
            "service_name",
            "endpoint",
            "fallback_endpoint",
            "connect_timeout_secs",
            "timeout_secs",
            "max_retries",
            "protocol",
        }
    )
}
"""Keys of the older service that have no use any more."""

MOVED: dict[tuple[str, str], tuple[str, str]] = {
    ("orchestrator", "max_reflection_rounds"): ("reflection", "max_reflection_rounds")
}
"""Keys of the older service that are accepted where they used to be."""

DEPRECATED: dict[tuple[str, str], str] = {
    ("reflection", key): "the older fixed limit binds when set; unset, the model decides within [budget]"
    for key in (
        "max_step_retries",
        "max_single_step_repairs",
        "max_task_replanning_attempts",
        "consecutive_failure_threshold",
        "max_reflection_rounds",
    )
}

LATER: dict[str, frozenset[str]] = {
    "llm": frozenset({"max_streaming_indicators"}),
}
"""Keys that are read and checked, and that nothing in this release acts on yet: setting one is told."""
