"""Whose tasks there are in the PostgreSQL database: the list, narrowed by tenant and session, and what a service keeps of its tenants."""
