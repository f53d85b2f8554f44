"""A client on the official Python SDK, 1.x or 2.x, that calls slow tools: `mcp_slow.py URL`.

It calls one with progress, and one as a task where the SDK has tasks (1.x), and prints what it saw as one line of JSON.
"""

import asyncio
import json
import sys

url = sys.argv[1]
progress: list[float] = []

try:
    from mcp import Client

    IS_V2 = True
except ImportError:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.types import CallToolResult

    IS_V2 = False

SLOW = ("slow_compute", {"seconds": 1.2, "label": "a sum"})


async def on_progress(value: float, total: float | None, message: str | None) -> None:
    progress.append(value)


def text(result) -> str:
    return result.content[0].text


async def as_task(session) -> dict:
    created = await session.experimental.call_tool_as_task(*SLOW, ttl=60_000)
    task_id = created.task.taskId
    states = [created.task.status]
    async for task in session.experimental.poll_task(task_id):
        states.append(task.status)
    result = await session.experimental.get_task_result(task_id, CallToolResult)
    listed = [task.taskId for task in (await session.experimental.list_tasks()).tasks]
    return {"states": states, "text": text(result), "listed": listed == [task_id]}


async def main() -> None:
    if IS_V2:
        async with Client(url) as client:
            result = await client.call_tool(*SLOW, progress_callback=on_progress)
            print(json.dumps({"text": text(result), "progress": progress, "task": None}))
        return
    async with streamablehttp_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        result = await session.call_tool(*SLOW, progress_callback=on_progress)
        print(json.dumps({"text": text(result), "progress": progress, "task": await as_task(session)}))


asyncio.run(main())
