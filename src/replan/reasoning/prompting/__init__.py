"""Prompts and typed answers: what a model is shown, asked, and corrected in."""
