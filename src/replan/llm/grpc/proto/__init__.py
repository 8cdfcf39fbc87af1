"""The protocol, and the code that is generated from it."""
