"""Replan's own tools, which no source lists: those to wait with, and the one that asks a model."""
