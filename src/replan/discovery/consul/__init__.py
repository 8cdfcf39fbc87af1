"""Consul: the instances of services, and the registration of this one."""
