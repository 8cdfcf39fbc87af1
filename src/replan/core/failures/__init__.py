"""What an error means: whose fault it is, whether another try may help, and whether the call may have happened."""
