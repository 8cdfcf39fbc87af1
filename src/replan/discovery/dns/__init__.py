"""The domain name system as a registry: addresses of a name, and SRV records."""
