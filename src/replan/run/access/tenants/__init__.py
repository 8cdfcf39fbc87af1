"""What tenants may use, and what they have used."""
