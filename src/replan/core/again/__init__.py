"""What of a later plan is done already: which calls are the same effect again, and what has to be said of them."""
