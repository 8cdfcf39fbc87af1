"""The service: HTTP with SSE, gRPC and MCP over the same use cases (`run.access`)."""
