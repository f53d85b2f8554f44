"""A server on fastmcp, 3.x or 4.x: `fastmcp_server.py stdio` or `fastmcp_server.py http PORT`."""

import sys
from dataclasses import dataclass

from fastmcp import Context, FastMCP

transport, *rest = sys.argv[1:]
server = FastMCP("fastmcp")
IS_READ = {"readOnlyHint": True}


@dataclass
class Sum:
    sum: int


@dataclass
class Answer:
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


@server.tool(annotations=IS_READ)
async def ask(question: str, ctx: Context) -> str:
    """Asks the user a question and returns the answer."""
    reply = await ctx.elicit(question, Answer)
    return f"{reply.action}: {reply.data.answer}" if reply.action == "accept" else reply.action


@server.tool(annotations=IS_READ)
def fail() -> str:
    """Always fails."""
    raise ValueError("it failed on purpose")


options = {"port": int(rest[0]), "host": "127.0.0.1"} if transport == "http" else {}
server.run("http" if transport == "http" else "stdio", show_banner=False, **options)
