// What another caller can learn from a reference: not even from the time that an answer takes.
import { expect, it } from 'vitest'
import { asGatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { references } from '../../../../src/features/references/references.ts'
import { References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { chain, fieldsOf, on } from '../../../support/chain.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { ada, referenceSettings } from '../../../support/reference-world.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

const bob = { id: 'bob' }

/** The same store, with what is asked of it; values of keys are as long as they are. */
function watched(store: MemoryStore): { readonly store: MemoryStore; readonly asked: string[] } {
  const asked: string[] = []
  const watching = new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        asked.push(`${String(name)} ${String(given[0]).length}`)
        return Reflect.apply(value, target, given) as unknown
      }
    },
  })
  return { store: watching, asked }
}

it('the reference of another caller takes the same work as an unknown one, and the same words', async () => {
  const { store, asked } = watched(new MemoryStore())
  const facts = { server: 'one', name: 'data', type: 'text/plain', ttl: 60_000 }
  const { id } = await new References(store, referenceSettings).add(ada, facts, bytesOf('x'.repeat(5000)))
  let checks = 0
  const given = {
    store,
    servers: () => ['one'],
    isPermitted: async () => {
      checks++
      return true
    },
  }
  const feature = references.create(() => referenceSettings, featureDeps(given))
  const run = chain(
    [on(references, referenceSettings)],
    async () => expect.fail('the server was called'),
    given,
  )
  const ways: Readonly<Record<string, (uri: string) => Promise<unknown>>> = {
    argument: (uri) => run({ principal: bob }, { arguments: { value: uri } }),
    tool: async (uri) => {
      const params = Payload.of({ name: 'read_reference', arguments: { ref: uri } })
      const outcome = await feature.builtins?.tools?.[0]?.handle(toolCall({ principal: bob, params }))
      return outcome && fieldsOf(outcome)
    },
    resource: async (uri) =>
      feature.builtins?.resources?.()[0]?.handle(toolCall({ principal: bob, params: Payload.of({ uri }) })),
  }
  /** What a way says, and what it asked of the store and of the permissions. */
  const seen = async (way: (uri: string) => Promise<unknown>, uri: string): Promise<unknown> => {
    asked.length = 0
    checks = 0
    const answer = await way(uri).catch((thrown: unknown) => asGatewayError(thrown).data)
    return { answer, asked: [...asked], checks }
  }
  for (const [name, way] of Object.entries(ways)) {
    const unknown = await seen(way, `ref://ref_${'0'.repeat(32)}`)
    expect(JSON.stringify(unknown), `by ${name}`).toContain('RESOURCE_NOT_FOUND')
    expect(unknown, `by ${name}`).toMatchObject({
      asked: [expect.stringMatching(/^get /), expect.stringMatching(/^get /)],
      checks: 0,
    })
    expect(await seen(way, `ref://${id}`), `by ${name}`).toEqual(unknown)
  }
})
