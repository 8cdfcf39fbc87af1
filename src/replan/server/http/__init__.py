"""The service over HTTP: routes that form what `UseCases` gives, and a server that nobody holds up."""
