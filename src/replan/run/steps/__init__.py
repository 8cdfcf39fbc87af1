"""Runs a plan: its steps in order of urgency, each with its calls."""
