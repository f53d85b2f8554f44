import { expect, it } from 'vitest'
import { Naming } from '../../../src/catalog/names.ts'
import { Catalog } from '../../../src/catalog/router.ts'
import type { Call } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { silentLog } from '../../support/silent-log.ts'
import { toolCall } from '../../support/tool-call.ts'

it('the chain of a target is cached, except under a name of client-controlled length', async () => {
  const compiled: string[] = []
  const { handle } = new Catalog({
    upstreams: new Map([['one', async () => ({ kind: 'result', result: Payload.of({}) }) as const]]),
    middlewares: ({ name = '' }) => {
      compiled.push(name)
      return []
    },
    viewMiddleware: () => [],
    observe: (next) => next,
    isAggregate: true,
    timeoutMs: 10_000,
    log: silentLog,
    only: 'one',
    naming: new Naming(),
    isStrict: false,
    own: [],
    metaTools: 'off',
    tool: () => undefined,
  })
  const long = 'x'.repeat(100_000)
  for (const name of ['read', 'read', long, long]) {
    const target = { method: 'tools/call', upstream: 'one', name }
    await handle(toolCall({ params: Payload.of({ name }), target }))
  }
  expect(compiled).toEqual(['read', long, long])
})

it('the capabilities of a server are requested without the state of the call they are for', async () => {
  const received: Call[] = []
  const { handle } = new Catalog({
    upstreams: new Map([
      [
        'one',
        async (call) => {
          received.push(call)
          return { kind: 'result', result: Payload.of({ capabilities: { tools: {} } }) } as const
        },
      ],
    ]),
    middlewares: () => [],
    viewMiddleware: () => [],
    observe: (next) => next,
    isAggregate: true,
    timeoutMs: 10_000,
    log: silentLog,
    only: 'one',
    naming: new Naming(),
    isStrict: true,
    own: [],
    metaTools: 'off',
    tool: () => undefined,
  })
  const target = { method: 'tools/call', upstream: 'one', name: 'read' }
  const inputResponses = { q: { result: Payload.of({ action: 'accept' }) } }
  await handle(
    toolCall({
      params: Payload.of({ name: 'read' }),
      target,
      requestState: { park: 'token' },
      inputResponses,
    }),
  )
  const [discover, call] = [
    received.find(({ method }) => method === 'server/discover'),
    received.find(({ method }) => method === 'tools/call'),
  ]
  expect(discover?.requestState).toEqual({})
  expect(discover).not.toHaveProperty('inputResponses')
  expect(call).toMatchObject({ requestState: { park: 'token' }, inputResponses })
})
