"""Registries of services: who offers a service now, and that this one is offered."""
