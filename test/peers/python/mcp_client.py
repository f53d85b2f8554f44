"""A client on the official Python SDK, 1.x or 2.x: `mcp_client.py URL` or `mcp_client.py COMMAND ARG...`.

It runs the journey that every peer client here runs, and prints what it saw as one line of JSON. If PEER_AGAIN is set, it
runs it again, with the same session, after each line on its standard input.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

target = sys.argv[1:]
progress: list[float] = []
questions: list[str] = []

try:
    from mcp import Client, StdioServerParameters
    from mcp_types import ElicitResult

    IS_V2 = True
except ImportError:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.types import ElicitResult

    IS_V2 = False


async def on_progress(value: float, total: float | None, message: str | None) -> None:
    progress.append(value)


async def on_question(context, params) -> ElicitResult:
    questions.append(params.message)
    return ElicitResult(action="accept", content={"answer": "blue"})


def is_url() -> bool:
    return target[0].startswith("http")


async def connect(stack: AsyncExitStack):
    command = None if is_url() else StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    if IS_V2:
        mode = os.environ.get("PEER_MODE", "auto")
        client = Client(command or target[0], mode=mode, elicitation_callback=on_question)
        await stack.enter_async_context(client)
        return client, str(client.session.protocol_version)
    streams = await stack.enter_async_context(stdio_client(command) if command else streamablehttp_client(target[0]))
    session = await stack.enter_async_context(
        ClientSession(streams[0], streams[1], elicitation_callback=on_question)
    )
    return session, str((await session.initialize()).protocolVersion)


def failed(error: Exception) -> dict:
    told = getattr(error, "error", error)
    return {"error": str(getattr(told, "message", told)), "code": getattr(told, "code", None)}


def seen(result) -> dict:
    raw = result.model_dump(by_alias=True, exclude_none=True, mode="json")
    for name in ("_meta", "resultType"):
        raw.pop(name, None)
    for block in raw.get("content", []):
        block.pop("_meta", None)
    return {**raw, "isError": raw.get("isError", False)}


async def main() -> None:
    async with AsyncExitStack() as stack:
        client, revision = await connect(stack)
        await journey(client, revision)
        while "PEER_AGAIN" in os.environ and await asyncio.to_thread(sys.stdin.readline):
            progress.clear()
            questions.clear()
            await journey(client, revision)


async def journey(client, revision: str) -> None:
    listed = await client.list_tools()
    calls = {
        "echo": {"text": "grüße\u2028"},
        "add": {"a": 2, "b": 40},
        "count": {"to": 3},
        "ask": {"question": "Which colour?"},
        "fail": {},
    }
    results = {}
    for name, arguments in calls.items():
        more = {"progress_callback": on_progress} if name == "count" else {}
        try:
            results[name] = seen(await client.call_tool(name, arguments, **more))
        except Exception as error:
            results[name] = failed(error)
    names = sorted(tool.name for tool in listed.tools)
    schemas = {tool.name: (getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", None)) for tool in listed.tools}
    print(json.dumps({"revision": revision, "tools": names, "schemas": schemas, "results": results, "progress": progress, "questions": questions}), flush=True)


asyncio.run(main())
