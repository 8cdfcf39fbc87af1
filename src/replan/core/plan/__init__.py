"""Plans: read, checked, compared, drawn, and seen as graphs. Nothing here knows how a task is going."""
