"""An OpenAPI document: read, its references followed, and what it says of operations, schemas and servers."""
