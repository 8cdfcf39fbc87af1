"""What a step of a plan asks a model."""
