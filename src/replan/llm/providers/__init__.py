"""Providers of models: how they are configured, and how the library opens them."""
