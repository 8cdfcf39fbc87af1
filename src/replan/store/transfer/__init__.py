"""Tasks on their way from one store to another: written as a file, read, checked and taken in."""
