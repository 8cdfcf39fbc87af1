"""What other processes are offered: tools, and models."""
