"""A task as a graph: its plan with how each step stands and what decided when it ended, and the forms in which that is drawn."""
