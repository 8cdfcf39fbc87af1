"""What tools from elsewhere cost."""
