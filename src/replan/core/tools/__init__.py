"""What a user decides about tools, and how they have done so far."""
