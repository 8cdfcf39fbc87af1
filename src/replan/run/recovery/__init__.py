"""The recovery of one call or step: doubts settled, failures diagnosed, steps repaired."""
