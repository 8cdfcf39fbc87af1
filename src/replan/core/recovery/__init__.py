"""What may be done about a failure: which proposals hold, which steps of the ladder are open, and when going on is pointless."""
