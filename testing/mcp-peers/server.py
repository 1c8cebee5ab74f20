"""A server of the package: `server.py stdio` or `server.py http PORT`. Misbehaves in no way."""

import asyncio
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("peer")


class Weather(BaseModel):
    """What the tool `weather` gives."""

    place: str
    degrees: float


@server.tool()
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ToolError("the disk is full")


@server.tool()
def weather(place: str) -> Weather:
    """Says how warm it is."""
    return Weather(place=place, degrees=21.5)


@server.tool()
async def slow() -> str:
    """Takes a minute."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        Path("cancelled").write_text("yes")
        raise
    return "done"


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds the tool `grown`, and says so."""

    def grown() -> str:
        """Was added later."""
        return "I have grown"

    server.add_tool(grown)
    await ctx.session.send_tool_list_changed()
    return "look again"


if sys.argv[1] == "stdio":
    print("a banner that is no message", flush=True)
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
