import { describe, expect, test } from 'vitest'
import { Builtins } from '../../../src/catalog/builtins.ts'
import type { Call, Handler } from '../../../src/core/call.ts'
import { asGatewayError, GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { BuiltinEntry } from '../../../src/features/feature.ts'
import { unknownMethod } from '../../../src/protocol/methods.ts'
import { toolCall } from '../../support/tool-call.ts'

type Json = Readonly<Record<string, unknown>>

const brief: BuiltinEntry = entry({ name: 'agent_brief' }, 'the brief')
const notice: BuiltinEntry = entry({ uri: 'use://auth', name: 'auth' }, 'the notice')

function entry(definition: Json, text: string, rest: Partial<BuiltinEntry> = {}): BuiltinEntry {
  return { definition, handle: async () => ({ kind: 'result', result: Payload.of({ text }) }), ...rest }
}

/** The servers with these prompts and resources of the gateway's own. */
function answering(servers: Handler, own: readonly BuiltinEntry[], isListed: boolean): Handler {
  const part = {
    prompts: () => own.filter(({ definition }) => definition.uri === undefined),
    resources: () => own.filter(({ definition }) => definition.uri !== undefined),
    isOn: () => true,
  }
  const builtins = new Builtins({
    parts: [part],
    metaTools: isListed ? 'listed' : 'hidden',
    hasMethods: true,
    isTaken: () => false,
    run: (call, end) => end(call),
  })
  return builtins.answer(servers)
}

/** A handler with these responses by method; other methods are unknown. */
function bench(answers: Readonly<Record<string, Json>>, own: readonly BuiltinEntry[], isListed = false) {
  const asked: string[] = []
  const servers: Handler = async ({ method }) => {
    asked.push(method)
    const found = answers[method]
    if (!found) throw unknownMethod(method)
    return { kind: 'result', result: Payload.of(found) }
  }
  const handle = answering(servers, own, isListed)
  const ask = async (method: string, name?: string): Promise<Json> => {
    const call: Call = toolCall({
      method,
      params: Payload.of(method === 'resources/read' ? { uri: name } : { name }),
      target: { method, upstream: 'one', ...(name !== undefined && { name }) },
    })
    const outcome = await handle(call)
    return outcome.kind === 'result' ? outcome.result.fields : {}
  }
  return { ask, asked }
}

describe('a built-in prompt or resource', () => {
  test('a built-in entry can be requested and is unlisted by default', async () => {
    const { ask } = bench({ 'prompts/list': { prompts: [] } }, [brief])
    expect(await ask('prompts/get', 'agent_brief')).toEqual({ text: 'the brief' })
    expect(await ask('prompts/list')).toEqual({ prompts: [] })
  })

  test('a built-in entry is listed after the entries of the server', async () => {
    const { ask } = bench({ 'prompts/list': { prompts: [{ name: 'theirs' }] } }, [brief], true)
    expect(await ask('prompts/list')).toEqual({ prompts: [{ name: 'theirs' }, { name: 'agent_brief' }] })
  })

  test('a built-in entry can override whether it is listed', async () => {
    const told = { ...notice, isListed: true }
    const { ask } = bench({ 'resources/list': { resources: [] } }, [told])
    expect(await ask('resources/list')).toEqual({ resources: [notice.definition] })
    const hidden = bench({ 'resources/list': { resources: [] } }, [{ ...notice, isListed: false }], true)
    expect(await hidden.ask('resources/list')).toEqual({ resources: [] })
  })

  test('a built-in entry is listed on the last page of the server only', async () => {
    const page = { prompts: [{ name: 'theirs' }], nextCursor: 'more' }
    expect(await bench({ 'prompts/list': page }, [brief], true).ask('prompts/list')).toEqual(page)
  })

  test('a built-in resource is listed for a server without resource lists, with an empty list of templates', async () => {
    const { ask } = bench({}, [notice], true)
    expect(await ask('resources/list')).toEqual({ resources: [notice.definition] })
    expect(await ask('resources/templates/list')).toEqual({ resourceTemplates: [] })
    expect(await ask('resources/read', 'use://auth')).toEqual({ text: 'the notice' })
    const failure = await ask('resources/read', 'use://nothing').catch(asGatewayError)
    expect(failure).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })

  test('a built-in entry yields to a server entry with the same name or URI', async () => {
    const theirs = { uri: 'use://auth', name: 'theirs' }
    const answers = { 'resources/list': { resources: [theirs] }, 'resources/read': { text: 'theirs' } }
    const { ask } = bench(answers, [notice], true)
    expect(await ask('resources/list')).toEqual({ resources: [theirs] })
    expect(await ask('resources/read', 'use://auth')).toEqual({ text: 'theirs' })
  })

  test('a built-in entry adds its capability to the server and keeps a declared capability as it is', async () => {
    const discovered = { capabilities: { prompts: { listChanged: true } } }
    const { ask } = bench({ 'server/discover': discovered }, [brief, notice], true)
    expect(await ask('server/discover')).toEqual({
      capabilities: { prompts: { listChanged: true }, resources: {} },
    })
  })

  test('a built-in resource that is not listed can be read, and changes nothing else', async () => {
    const discovered = { capabilities: { tools: {} } }
    const { ask } = bench({ 'server/discover': discovered }, [notice])
    expect(await ask('server/discover')).toEqual(discovered)
    expect(await ask('resources/read', 'use://auth')).toEqual({ text: 'the notice' })
    for (const method of ['resources/list', 'resources/templates/list'])
      expect(await ask(method).catch(asGatewayError)).toMatchObject({ rpc: -32601 })
    expect(await ask('resources/read', 'use://nothing').catch(asGatewayError)).toMatchObject({ rpc: -32601 })
  })

  test('a request for another name is forwarded without listing the entries of the server', async () => {
    const { ask, asked } = bench({ 'prompts/get': { text: 'theirs' } }, [notice])
    expect(await ask('prompts/get', 'agent_brief')).toEqual({ text: 'theirs' })
    expect(asked).toEqual(['prompts/get'])
  })

  test('a built-in entry does not mask a failure of the server', async () => {
    const servers: Handler = async () => {
      throw new GatewayError('SERVER_UNAVAILABLE', 'It is away.')
    }
    const handle = answering(servers, [brief], true)
    const call = toolCall({ method: 'prompts/list', target: { method: 'prompts/list', upstream: 'one' } })
    expect(await handle(call).catch(asGatewayError)).toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })
})
