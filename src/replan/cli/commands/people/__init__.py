"""What a person does to a task that somebody else may drive."""
