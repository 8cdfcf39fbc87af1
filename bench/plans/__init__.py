"""What plans of several kinds of tasks cost: as they can be said now, as they could be said before, and beside agents."""
