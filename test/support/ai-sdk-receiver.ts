/** A receiver of events by webhooks as the AI SDK has it, which verifies the signatures. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import {
  type Experimental_MCPEvent as MCPEvent,
  type Experimental_MCPEventStore as MCPEventStore,
  type Experimental_MCPEventSubscription as MCPEventSubscription,
  experimental_createMCPEventWebhook as createMCPEventWebhook,
} from '@ai-sdk/mcp'
import { onTestFinished } from 'vitest'

/** The subscriptions of a client of the AI SDK. */
class Subscriptions implements MCPEventStore {
  readonly byKey = new Map<string, MCPEventSubscription>()

  async get(key: string): Promise<MCPEventSubscription | undefined> {
    return this.byKey.get(key)
  }

  async getById(id: string): Promise<MCPEventSubscription | undefined> {
    return [...this.byKey.values()].find((each) => each.id === id)
  }

  async set(subscription: MCPEventSubscription): Promise<void> {
    this.byKey.set(subscription.key, subscription)
  }

  async update(key: string, patch: Partial<MCPEventSubscription>): Promise<void> {
    const known = this.byKey.get(key)
    if (known) this.byKey.set(key, { ...known, ...patch })
  }

  async delete(key: string): Promise<void> {
    this.byKey.delete(key)
  }
}

/** The receiver of the AI SDK, on loopback until the test is over; what it received, and the statuses it answered. */
export async function aiSdkReceiver() {
  const store = new Subscriptions()
  const received: MCPEvent[] = []
  const statuses: number[] = []
  const handle = createMCPEventWebhook({ store, onEvent: async ({ event }) => void received.push(event) })
  const server = createServer((request, response) => {
    void (async () => {
      const body = await text(request)
      const given = Object.entries(request.headers).map(([name, value]) => [name, String(value)])
      const url = `http://127.0.0.1${request.url}`
      const answer = await handle(
        new Request(url, { method: 'POST', headers: Object.fromEntries(given), body }),
      )
      statuses.push(answer.status)
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
    })()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { store, origin, url: `${origin}/hook`, received, statuses }
}
