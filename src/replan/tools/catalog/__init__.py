"""Many sources of tools as one: ids, lists that stay fresh, and limits."""
