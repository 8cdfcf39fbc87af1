"""A finished round, evaluated, and its answer written."""
