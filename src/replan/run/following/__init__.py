"""What a task is told of the tasks that it follows: whether there are such, and what is read of them at its beginning."""
