"""JSON values: read from what models write, held against schemas, brought into one form, and told in few words."""
