"""The service under load, beside bare servers that do nothing."""
