"""What people say to a task: signals, answers, approvals and edits."""
