"""What the loop shows models of a task, its steps and its rounds."""
