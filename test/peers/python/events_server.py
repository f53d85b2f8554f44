"""A server with events of its own, built on mcp-webhook-events: `events_server.py http PORT`.

Its only delivery is by webhooks. The tool `reply` makes an event of a ticket. Receivers on loopback are allowed.
"""

import sys
import tempfile

from mcp.server import MCPServer
from mcp_webhook_events import EventDefinition, McpEvents, SafeHttp

_, port = sys.argv[1:]
server = MCPServer("tickets")
ticket = {"ticket_id": {"type": "string"}}
events = McpEvents(
    server,
    store=tempfile.mkdtemp() + "/events.sqlite3",
    http=SafeHttp(allow_insecure_for_tests=True),
    definitions=[
        EventDefinition(
            name="ticket.updated",
            description="A ticket was updated.",
            input_schema={"type": "object", "properties": ticket, "additionalProperties": False},
            payload_schema={"type": "object", "properties": {**ticket, "summary": {"type": "string"}}},
        )
    ],
)
events.install()


@server.tool()
def reply(ticket_id: str, summary: str) -> str:
    """Replies to a ticket."""
    queued = events.publish("ticket.updated", {"ticket_id": ticket_id, "summary": summary})
    return f"{queued} {events.deliver_pending()['delivered']}"


server.run("streamable-http", port=int(port), stateless_http=True, json_response=True)
