"""One call of a tool: its place in the plan, what identifies it, and how a doubt about it is settled by records."""
