"""HTTP for tools, kept from addresses that they may not reach."""
