"""Kinds of tasks: guidance for them (scenes), and plans that people have written beforehand (workflows)."""
