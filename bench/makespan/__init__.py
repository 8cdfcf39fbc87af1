"""How long plans take beside what their graphs ask for."""
