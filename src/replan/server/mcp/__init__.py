"""The service as an MCP server (Model Context Protocol): tools for any client, over stdio and mounted in the HTTP service."""
