"""A client on fastmcp, 3.x or 4.x, that calls slow tools: `fastmcp_slow.py URL`.

It calls one with progress, one as a task, and one that asks in the middle of its task (4.x), and prints what it saw as one
line of JSON. fastmcp 3.x has the tasks of 2025-11-25, 4.x with fastmcp-tasks those of the extension of 2026-07-28.
"""

import asyncio
import json
import sys

from fastmcp import Client

try:
    from fastmcp_tasks import call_tool_task
except ImportError:
    call_tool_task = None

url = sys.argv[1]
progress: list[float] = []
questions: list[str] = []
SLOW = ("slow_compute", {"seconds": 1.2, "label": "a sum"})


async def on_progress(value: float, total: float | None, message: str | None) -> None:
    progress.append(value)


async def on_question(message, response_type, params, context):
    questions.append(message)
    return response_type(confirm=True)


def text(result) -> str:
    return result.content[0].text


async def begin(client: Client, name: str, arguments: dict):
    if call_tool_task:
        return await call_tool_task(client, name, arguments)
    return await client.call_tool(name, arguments, task=True)


async def main() -> None:
    async with Client(url, elicitation_handler=on_question) as client:
        result = await client.call_tool_mcp(*SLOW, progress_handler=on_progress)
        task = await begin(client, *SLOW)
        states = [(await task.status()).status]
        done = text(await task.result())
        states.append((await task.status()).status)
        seen = {"text": text(result), "progress": progress, "task": {"states": states, "text": done}}
        if call_tool_task:
            asking = await begin(client, "confirm_delete", {"filename": "plan.txt"})
            seen["asked"] = {"text": text(await asking.result()), "questions": questions}
        print(json.dumps(seen))


asyncio.run(main())
