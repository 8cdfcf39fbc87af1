"""Tools chosen, plans made, and tasks replanned."""
