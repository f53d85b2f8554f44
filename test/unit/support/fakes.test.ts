import { afterEach, describe, expect, test } from 'vitest'
import { type Answers, type ConnectOptions, textOf } from '../../support/client/options.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { fakeServerCommand, startFakeServer } from '../../support/fake-server.ts'
import { isObject, RawJson } from '../../support/server/json.ts'
import type { ServerOptions, Transport } from '../../support/server/options.ts'
import { revisions, traitsOf } from '../../support/server/revisions.ts'
import { watchedUri } from '../../support/server/world.ts'

const answers: Answers = {
  'elicitation/create': ({ message }) => ({
    action: 'accept',
    content: { name: `answer to ${String(message)}` },
  }),
  'sampling/createMessage': () => ({
    role: 'assistant',
    model: 'fake',
    content: { type: 'text', text: 'Paris' },
  }),
  'roots/list': () => ({ roots: [{ uri: 'file:///home', name: 'home' }] }),
}

const pairs = revisions.flatMap((revision) => {
  const { modern, streamable } = traitsOf(revision)
  const transports: Transport[] = [
    'stdio',
    ...(streamable ? (['http'] as const) : []),
    ...(modern ? [] : (['sse'] as const)),
  ]
  return transports.map((transport) => ({ revision, transport }))
})

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

/** Connects a fake client to a fake server; `violations` lists the protocol violations each found. */
async function pair(server: ServerOptions, client: Partial<ConnectOptions> = {}) {
  const { revision, transport } = server
  const common = { revision, transport, answers, ...client }
  if (transport === 'stdio') {
    const connected = await connect({ ...common, ...fakeServerCommand(server) })
    opened.push(() => connected.close())
    const violations = async () => {
      const noticed: unknown = JSON.parse(
        textOf(await connected.request('tools/call', { name: 'violations' })),
      )
      return { server: noticed, client: connected.violations }
    }
    return { client: connected, violations, until: seenOverStdio(connected) }
  }
  const started = await startFakeServer(server)
  opened.push(() => started.close())
  const connected = await connect({ ...common, url: started.url })
  opened.push(() => connected.close())
  const violations = () => Promise.resolve({ server: started.violations, client: connected.violations })
  return {
    client: connected,
    violations,
    until: (kind: string) => started.until((entry) => entry.kind === kind),
    started,
  }
}

function seenOverStdio(client: FakeClient) {
  return async (kind: string) => {
    const seen: unknown = JSON.parse(textOf(await client.request('tools/call', { name: 'seen' })))
    const found = Array.isArray(seen)
      ? seen.find((entry) => isObject(entry) && entry['kind'] === kind)
      : undefined
    if (found === undefined) throw new Error(`the server saw no ${kind}`)
  }
}

const clean = { server: [], client: [] }

describe.each(pairs)('fake server $revision over $transport', ({ revision, transport }) => {
  const traits = traitsOf(revision)

  test('tools are listed and called, with progress and log messages', async () => {
    const { client, violations } = await pair({ revision, transport })
    const list = await client.request('tools/list')
    expect(list.result?.['tools']).toContainEqual(expect.objectContaining({ name: 'echo' }))
    const text = '{"big": 12345678901234567890, "float":1.0}'
    const echo = await client.request('tools/call', { name: 'echo', arguments: new RawJson(text) })
    expect(textOf(echo)).toBe(text)
    const progress: unknown[] = []
    const onProgress = (params: object) => progress.push(params)
    await client.request('tools/call', { name: 'slow', arguments: { steps: 3 } }, { onProgress })
    expect(progress).toHaveLength(3)
    const logged = await client.request('tools/call', { name: 'log' }, { logLevel: 'info' })
    expect(logged.notes.map(({ method }) => method)).toEqual(['notifications/message'])
    for (const name of ['all_content', 'vendor', 'structured', 'fail', 'separators', 'big']) {
      expect((await client.request('tools/call', { name })).error).toBeUndefined()
    }
    const failed = await client.request('tools/call', {
      name: 'error',
      arguments: { code: -31000, data: [1] },
    })
    expect(failed.error).toMatchObject({ code: -31000, data: [1] })
    expect(await violations()).toEqual(clean)
  })

  test('resources are read, prompts are returned and arguments are completed', async () => {
    const { client, violations } = await pair({ revision, transport, pageSize: 2 })
    const first = await client.request('resources/list')
    const second = await client.request('resources/list', { cursor: first.result?.['nextCursor'] })
    expect(second.result?.['nextCursor']).toBeUndefined()
    const read = await client.request('resources/read', { uri: 'fake://item/7 é' })
    expect(read.text).toContain('item 7 é')
    const prompt = await client.request('prompts/get', { name: 'greet', arguments: { name: 'Ada' } })
    expect(prompt.text).toContain('Hello Ada')
    const ref = { type: 'ref/prompt', name: 'greet' }
    const completion = await client.request('completion/complete', {
      ref,
      argument: { name: 'name', value: 'a' },
    })
    expect(completion.result?.['completion']).toMatchObject({ values: ['Ada', 'Alan'] })
    const missing = await client.request('resources/read', { uri: 'fake://none' })
    expect(missing.error?.['code']).toBe(traits.modern ? -32602 : -32002)
    const vendor = await client.request('vendor/ping', { payload: { a: 1 } })
    expect(vendor.result).toMatchObject({ pong: { a: 1 } })
    expect(await violations()).toEqual(clean)
  })

  test('server requests are answered', async () => {
    const { client, violations } = await pair({ revision, transport })
    const roots = await client.request('tools/call', { name: 'ask_roots' })
    expect(textOf(roots)).toContain('file:///home')
    expect(textOf(await client.request('tools/call', { name: 'ask_sampling' }))).toContain('Paris')
    expect((await client.request('resources/read', { uri: 'fake://asking' })).result).toBeDefined()
    expect((await client.request('prompts/get', { name: 'asking' })).result).toBeDefined()
    expect(await violations()).toEqual(clean)
  })

  test.skipIf(!traits.elicitation)('elicitations are answered in sequence and concurrently', async () => {
    const { client, violations } = await pair({ revision, transport })
    expect(textOf(await client.request('tools/call', { name: 'ask_form' }))).toContain('answer to What')
    const rounds = await client.request('tools/call', { name: 'ask_rounds', arguments: { n: 3 } })
    expect(Object.keys(JSON.parse(textOf(rounds)))).toEqual(['round_1', 'round_2', 'round_3'])
    expect(rounds.rounds).toBe(traits.modern ? 4 : 1)
    expect(textOf(await client.request('tools/call', { name: 'ask_two' }))).toContain('answer to Second?')
    expect(textOf(await client.request('tools/call', { name: 'ask_parallel' }))).toContain('Paris')
    expect(await violations()).toEqual(clean)
  })

  test.skipIf(!traits.urlElicitation)('URL elicitations are sent', async () => {
    const { client, violations } = await pair({ revision, transport })
    expect(textOf(await client.request('tools/call', { name: 'ask_url' }))).toContain('accept')
    expect(await violations()).toEqual(clean)
  })

  test('a call is cancelled', async () => {
    const { client, violations, until } = await pair({ revision, transport })
    const { id, reply } = client.start('tools/call', { name: 'hang' })
    await client.request('tools/call', { name: 'echo' })
    const [outcome] = await Promise.allSettled([reply, client.cancel(id, 'enough')])
    expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'enough' } })
    await until('cancelled')
    expect(client.late).toEqual([])
    expect(await violations()).toEqual(clean)
  })

  const change = { name: 'change', arguments: { what: ['prompts', 'tools', 'watched'] } }
  const isUpdate = ({ method }: { method: string }) => method === 'notifications/resources/updated'

  test.skipIf(traits.modern)('changes are notified', async () => {
    const { client, violations } = await pair({ revision, transport })
    await client.subscribe(watchedUri)
    await client.request('tools/call', change)
    await client.until(isUpdate)
    expect(client.notes).toHaveLength(3)
    expect((await client.request('tools/list')).text).toContain('added_1')
    expect(await violations()).toEqual(clean)
  })

  test.runIf(traits.modern)('subscribed changes are notified', async () => {
    const { client, violations } = await pair({ revision, transport })
    const listening = client.listen({ toolsListChanged: true, resourceSubscriptions: [watchedUri] })
    expect(await listening.acknowledged).toEqual({
      toolsListChanged: true,
      resourceSubscriptions: [watchedUri],
    })
    await client.request('tools/call', change)
    await listening.until(isUpdate)
    expect(listening.notes).toHaveLength(2)
    await listening.close()
    expect(await violations()).toEqual(clean)
  })
})
