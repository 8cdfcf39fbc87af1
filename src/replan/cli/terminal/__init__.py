"""What all commands share: words, options, exit codes, and the way to a running Replan or to a service in place of a database (`terminal.remote`)."""
