"""What operators see of the service: its log lines, its metrics, and its traces."""
