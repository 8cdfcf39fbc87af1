"""Tasks that a task follows: what is known of them, and what of that can be referred to."""
