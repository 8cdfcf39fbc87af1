"""The page over HTTP: its files, and how a person signs in to it."""
