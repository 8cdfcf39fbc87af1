"""The pure core: no clock, no input or output, no event loop, no randomness."""
