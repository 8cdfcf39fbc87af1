"""OpenAPI documents of others as tools: how many operations, and is what is sent as the document says."""
