"""What operators see of the service: its metrics."""
