"""JSON Schemas themselves: where schemas stand within one, its patterns, and what its references multiply."""
