"""Plans: read, checked, compared, and seen as graphs. Nothing here knows how a task is going."""
