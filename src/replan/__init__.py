"""A self-healing task orchestrator."""
