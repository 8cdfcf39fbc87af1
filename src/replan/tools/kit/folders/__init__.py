"""Files under one folder that nothing leads out of: found, read, searched and changed."""
