"""A tool service seen from the client: its endpoints, one connection to each, and one call over them."""
