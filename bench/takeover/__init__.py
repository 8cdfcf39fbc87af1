"""How long it takes until a killed worker's task is driven on by another."""
