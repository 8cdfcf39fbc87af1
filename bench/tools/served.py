"""What `replan tools serve` offers in these measures."""

from replan import tool


@tool
async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool(effect="reads")
async def look(a: int, b: int) -> dict[str, int]:
    """Add two numbers, as a tool that only reads."""
    return {"sum": a + b}
