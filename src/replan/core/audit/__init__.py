"""Audit records: what a task has done and who had it do so, as readings of its log."""
