"""A service in place of a database: which one is meant, and what commands see of it."""
