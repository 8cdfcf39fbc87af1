"""Tools chosen, plans made, and plans made anew."""
