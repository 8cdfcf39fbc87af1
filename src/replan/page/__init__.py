"""The page that people look at: its files, as they are served, and one task as a file that stands alone."""
