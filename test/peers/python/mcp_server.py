"""A server on the official Python SDK, 1.x or 2.x: `mcp_server.py stdio` or `mcp_server.py http PORT`.

It has the five tools that every peer server here has: echo, add, count (progress), ask (elicitation) and fail.
"""

import sys
from typing import Annotated

from pydantic import BaseModel

try:
    from mcp.server.elicitation import ElicitationResult
    from mcp.server.mcpserver import Context, MCPServer as Server
    from mcp.server.mcpserver.resolve import Elicit, Resolve
    from mcp_types import ToolAnnotations

    IS_V2 = True
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as Server
    from mcp.types import ToolAnnotations

    IS_V2 = False

IS_READ = ToolAnnotations(read_only_hint=True) if IS_V2 else ToolAnnotations(readOnlyHint=True)

transport, *rest = sys.argv[1:]
port = int(rest[0]) if rest else 0
try:
    server = Server("python-sdk", port=port)
    options = {}
except TypeError:
    server = Server("python-sdk")
    options = {"port": port} if transport == "http" else {}


class Sum(BaseModel):
    sum: int


class Answer(BaseModel):
    answer: str


@server.tool(annotations=IS_READ)
def echo(text: str) -> str:
    """Returns the text."""
    return text


@server.tool(annotations=IS_READ)
def add(a: int, b: int) -> Sum:
    """Returns the sum of two numbers."""
    return Sum(sum=a + b)


@server.tool(annotations=IS_READ)
async def count(to: int, ctx: Context) -> str:
    """Counts, and reports each number as progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
    return f"counted to {to}"


def said(reply) -> str:
    return f"{reply.action}: {reply.data.answer}" if reply.action == "accept" else reply.action


if IS_V2:
    # A resolver asks in the words of either era: as a result that needs input, or by a request of its own.
    async def answer(question: str) -> Elicit[Answer]:
        return Elicit(question, Answer)

    @server.tool(annotations=IS_READ)
    async def ask(question: str, reply: Annotated[ElicitationResult[Answer], Resolve(answer)]) -> str:
        """Asks the user a question and returns the answer."""
        return said(reply)

else:

    @server.tool(annotations=IS_READ)
    async def ask(question: str, ctx: Context) -> str:
        """Asks the user a question and returns the answer."""
        return said(await ctx.elicit(question, Answer))


@server.tool(annotations=IS_READ)
def fail() -> str:
    """Always fails."""
    raise ValueError("it failed on purpose")


server.run("streamable-http" if transport == "http" else "stdio", **options)
