"""What an evaluation of a round comes to, and what is missing of a success."""
