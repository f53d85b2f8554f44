import { expect, it } from 'vitest'
import { clientOf, codeOf, gatewayTo, httpServer } from '../../support/journey.ts'

const never = () => new Promise<never>(() => undefined)

it.each(['2025-06-18', '2025-11-25'] as const)(
  'confirmation waits as long as configured for a user of a %s client who does not respond',
  { timeout: 30_000 },
  async (revision) => {
    const server = await httpServer()
    const confirm = { ttl: '500ms' }
    const one = { url: server.url, tools: { echo: { confirm: true } }, features: { confirm } }
    const client = await clientOf(await gatewayTo({ one }), {
      revision,
      answers: { 'elicitation/create': never },
    })
    const reply = await client.request('tools/call', { name: 'echo', arguments: {} })
    expect(codeOf(reply)).toBe('CONFIRMATION_DECLINED')
    expect(reply.text).toContain('timeout')
    expect(server.seen.filter(({ message }) => message?.['method'] === 'tools/call')).toEqual([])
  },
)
