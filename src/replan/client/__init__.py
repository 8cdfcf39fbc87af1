"""The Python client of the service: the names of `Replan`, over HTTP."""
