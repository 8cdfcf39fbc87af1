"""Tools of MCP servers (Model Context Protocol), over stdio, streamable HTTP and the older SSE.

Nothing here imports the `mcp` library before a server is opened.
"""

from __future__ import annotations

from replan.tools.mcp.server_files import from_command, from_file, from_table
from replan.tools.mcp.servers import HttpServer, OAuth, StdioServer
from replan.tools.mcp.source import McpSource

__all__ = ["HttpServer", "McpSource", "OAuth", "StdioServer", "from_command", "from_file", "from_table"]
