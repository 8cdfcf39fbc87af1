"""A look at a database as it is: nothing is made, migrated or locked, and each part that cannot be seen leaves the others."""
