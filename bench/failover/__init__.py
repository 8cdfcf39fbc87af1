"""What becomes of calls when an endpoint fails under load, and when a registry flaps."""
