"""What calling tools costs, by where they are."""
