"""Waits as steps: the tools that a plan waits with, and what is known of each wait."""
