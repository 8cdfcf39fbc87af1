"""The ports of the store, a class for each, all over the same connections."""
