"""What `replan doctor` looks at, one file for each subject."""
