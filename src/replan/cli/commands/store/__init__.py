"""What the store keeps, seen as a whole: tasks that move to another one, and what is given up."""
