"""What all commands share: words, options, exit codes, and the way to a running Replan."""
