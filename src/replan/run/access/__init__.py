"""The use cases as one caller may have them: whose tasks, with which scopes, within which limits. Front ends call nothing else."""
