import { describe, expect, test } from 'vitest'
import { Locator } from '../../../src/catalog/locate.ts'
import { Naming } from '../../../src/catalog/names.ts'
import type { Call, Handler } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { toolCall } from '../../support/tool-call.ts'

const pass = fakeClock()
const never = new Promise<never>(() => undefined)
const away = (): Promise<never> => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'away'))

/** What servers list: names of tools, an answer of its own, or garbage. */
type Listed = readonly string[] | (() => Promise<never>)

interface World {
  readonly locator: Locator
  /** The lists that servers were asked for. */
  readonly lists: string[]
}

function world(
  servers: Readonly<Record<string, Listed>>,
  resources: Readonly<Record<string, unknown>> = {},
): World {
  const lists: string[] = []
  const handle: Handler = async ({ target: { upstream = '', method } }) => {
    lists.push(`${upstream} ${method}`)
    const listed = servers[upstream]
    if (typeof listed === 'function') return listed()
    const result = method === 'resources/list' ? { resources: resources[upstream] ?? [] } : {}
    return { kind: 'result', result: Payload.of(result) }
  }
  const locator = new Locator({
    names: Object.keys(servers),
    naming: new Naming(),
    handle,
    timeoutMs: 2000,
    listedName: ({ target: { upstream = '', name = '' } }) => {
      const listed = servers[upstream] ?? []
      if (typeof listed === 'function') return listed()
      return listed.includes(name) ? name : undefined
    },
  })
  return { locator, lists }
}

const call = (given: Partial<Call> = {}): Call => toolCall({ target: { method: 'tools/call' }, ...given })
const found = async (promise: Promise<unknown>): Promise<unknown> => {
  const settled = promise.catch((error: unknown) => (error instanceof GatewayError ? error.code : error))
  await pass(6000)
  return settled
}

describe('a name without a prefix', () => {
  test.each([
    ['hangs', () => never],
    ['is not available', away],
  ])('belongs to the server that lists it, while another one %s', async (_title, other) => {
    const { locator } = world({ a: ['get'], b: other })
    expect(await found(locator.item(call(), 'tools/call', 'get'))).toEqual({ upstream: 'a', name: 'get' })
    expect(await found(locator.item(call(), 'tools/call', 'put'))).toBe('UNKNOWN_TOOL')
    expect(await found(locator.item(call(), 'prompts/get', 'put'))).toBe('INVALID_INPUT')
  })

  test.each(['b_get', 'a_b_get', 'a_get_own'])(
    'is %s in the namespace of its server, whatever others list',
    async (name) => {
      const { locator } = world({
        a: () => never,
        'a-b': away,
        b: away,
        c: ['b_get', 'a_b_get', 'a_get_own'],
      })
      expect(await found(locator.item(call(), 'tools/call', name))).not.toHaveProperty('upstream', 'c')
    },
  )

  test('is listed by its own name on a server only where that is asked for', async () => {
    const { locator } = world({ a: ['subscribe'], b: () => never })
    const lists = (name: string, isOwn: boolean): Promise<boolean> =>
      locator.lists(call(), 'tools/call', { name, isOwn })
    expect(await lists('subscribe', false)).toBe(false)
    expect(await lists('a_subscribe', false)).toBe(true)
    expect(await found(lists('subscribe', true))).toBe(true)
    expect(await found(lists('unsubscribe', true))).toBe(false)
  })

  test.each(['', '_', '__proto__', 'constructor', '\ud800', 'a', 'x'.repeat(100_000), 'a\nb', '<b>'])(
    'such as %j is unknown where no server lists it',
    async (name) => {
      const { locator } = world({ a: [], b: [] })
      expect(await found(locator.item(call(), 'tools/call', name))).toBe('UNKNOWN_TOOL')
    },
  )
})

describe('the URI of a server', () => {
  test.each([
    ['hangs', () => never],
    ['is not available', away],
  ])('belongs to the server that lists it, while another one %s', async (_title, other) => {
    const { locator } = world({ a: [], b: other }, { a: [null, 7, {}, { uri: null }, { uri: 'x:1' }] })
    expect(await found(locator.resource(call(), 'x:1'))).toEqual({ upstream: 'a', name: 'x:1' })
    expect(await found(locator.resource(call(), 'x:2'))).toBeUndefined()
  })

  test('that is unknown does not make servers list their resources each time', async () => {
    const { locator, lists } = world({ a: [], b: [] }, { a: [{ uri: 'x:1' }] })
    for (let index = 0; index < 50; index += 1) await locator.resource(call(), `y:${index}`)
    expect(lists).toHaveLength(6)
    await locator.resource(call(), 'x:1')
    expect(lists).toHaveLength(6)
    await pass(1000)
    await locator.resource(call(), 'y:0')
    expect(lists).toHaveLength(12)
  })

  test('is found soon after the server lists it, and for a caller who is listed others', async () => {
    const listed: unknown[] = []
    const { locator } = world({ a: [], b: [] }, { a: listed })
    expect(await locator.resource(call(), 'x:1')).toBeUndefined()
    listed.push({ uri: 'x:1' })
    const client = { era: 'modern', revision: '2026-07-28', capabilities: { extensions: {} } } as const
    expect(await locator.resource(call({ client }), 'x:1')).toEqual({ upstream: 'a', name: 'x:1' })
    await pass(1000)
    expect(await locator.resource(call(), 'x:1')).toEqual({ upstream: 'a', name: 'x:1' })
  })
})
