"""Scenes and workflows in files: found, read, checked, and read again once they have changed."""
