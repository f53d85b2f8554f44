import { expect, it } from 'vitest'
import { createCatalog } from '../../../src/catalog/router.ts'
import { Payload } from '../../../src/core/payload.ts'
import { toolCall } from '../../support/tool-call.ts'

it('the chain of a target is cached, except under a name of client-controlled length', async () => {
  const compiled: string[] = []
  const { handle } = createCatalog({
    upstreams: new Map([['one', async () => ({ kind: 'result', result: Payload.of({}) }) as const]]),
    policies: ({ name = '' }) => {
      compiled.push(name)
      return []
    },
    viewMiddleware: () => [],
    observe: (next) => next,
    isAggregate: true,
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
