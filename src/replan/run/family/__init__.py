"""What the tasks of a family of forks know of one another's calls."""
