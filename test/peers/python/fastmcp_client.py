"""A client on fastmcp, 3.x or 4.x: `fastmcp_client.py URL` or `fastmcp_client.py COMMAND ARG...`.

If PEER_AGAIN is set, it runs the journey again, with the same session, after each line on its standard input.
"""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

target = sys.argv[1:]
progress: list[float] = []
questions: list[str] = []


async def on_progress(value: float, total: float | None, message: str | None) -> None:
    progress.append(value)


async def on_question(message, response_type, params, context):
    questions.append(message)
    return response_type(answer="blue")


def transport():
    if target[0].startswith("http"):
        return StreamableHttpTransport(target[0])
    return StdioTransport(command=target[0], args=target[1:], env=dict(os.environ))


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
    modes = {"mode": os.environ["PEER_MODE"]} if "PEER_MODE" in os.environ else {}
    async with Client(transport(), elicitation_handler=on_question, **modes) as client:
        await journey(client)
        while "PEER_AGAIN" in os.environ and await asyncio.to_thread(sys.stdin.readline):
            progress.clear()
            questions.clear()
            await journey(client)


async def journey(client) -> None:
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
        handler = on_progress if name == "count" else None
        try:
            results[name] = seen(await client.call_tool_mcp(name, arguments, progress_handler=handler))
        except Exception as error:
            results[name] = failed(error)
    # The value a caller of the high-level API gets.
    data = json.dumps((await client.call_tool("echo", {"text": "data"})).data, default=vars)
    names = sorted(tool.name for tool in listed)
    schemas = {tool.name: (getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", None)) for tool in listed}
    print(json.dumps({"tools": names, "schemas": schemas, "results": results, "data": data, "progress": progress, "questions": questions}), flush=True)


asyncio.run(main())
