"""Small programs for known faults of agent frameworks, run on the peers and on Replan side by side."""
