/** A client that polls the events of its caller's calls of one tool for as long as the simulation lasts. */
import { Payload } from '../../src/core/payload.ts'
import type { Client } from './client.ts'
import type { Field } from './workload.ts'

/** How long it pauses between polls, in milliseconds: at most. */
const POLL_INTERVAL_MS = 10_000
const TOOL = 'charge_card'

/** Polls the events of the first server, and adds those that arrive to the history. Resolves when the simulation ends. */
export async function watch(client: Client, field: Field): Promise<void> {
  const { random, history, gateways } = field
  const [server] = field.servers
  let cursor: unknown = null
  while (!field.isEnding()) {
    const { result } = await client.send(random.pick(gateways), {
      method: 'events/poll',
      upstream: server,
      params: Payload.of({ name: `${TOOL}.succeeded`, arguments: {}, cursor }),
      patience: 10_000,
      hangsUp: false,
    })
    // After a failure it polls from the same place again.
    cursor = result?.member('cursor') ?? cursor
    for (const event of result?.at('events')?.items ?? []) {
      const given = event.at('data')?.at('arguments')
      const [order = 'none', amount = 'none'] = [given?.at('order')?.text, given?.at('amount')?.text]
      history.add({ kind: 'event', receiver: client.principal, server, tool: TOOL, order, amount })
    }
    await client.pause(POLL_INTERVAL_MS * random.next())
  }
}
