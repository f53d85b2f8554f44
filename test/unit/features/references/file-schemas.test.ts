// What servers learn of a client that transfers files, and what its lists and results look like.
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { filesMiddleware } from '../../../../src/features/references/transfer/file-extension.ts'
import { ownCall } from '../../../../src/protocol/lift.ts'
import type { Json } from '../../../support/server/json.ts'

const files = { upload: true, download: true }

/** Passes a call through the middleware: what the server saw of the client, and the result. */
async function passed(method: string, { capabilities = {}, upstream, result = {} }: Given) {
  const seen: Json[] = []
  const middleware = filesMiddleware(method, (name) => name !== 'off')
  const target = { method, ...(upstream !== undefined && { upstream }) }
  const client = { ...ownCall().client, capabilities }
  const call: Call = ownCall({ method, target, client })
  const given = { kind: 'result', result: Payload.of(result) } as const
  const outcome = await middleware?.(async (each) => {
    seen.push(each.client.capabilities)
    return given
  })(call)
  return { seen: seen[0], outcome, given }
}

interface Given {
  readonly capabilities?: Json
  readonly upstream?: string
  readonly result?: Json
}

describe('the capability files of a client', () => {
  it('is for the server at its own address, and for none at the address of all', async () => {
    const capabilities = { files, sampling: {} }
    expect((await passed('tools/call', { capabilities })).seen).toEqual({ sampling: {} })
    expect((await passed('tools/call', { capabilities, upstream: 'one' })).seen).toEqual(capabilities)
    expect((await passed('tools/call', { capabilities, upstream: 'off' })).seen).toEqual(capabilities)
  })
})

describe('results without files', () => {
  it('are the same objects', async () => {
    const result = { content: [{ type: 'text', text: '"file"' }], tools: [{ name: 't', inputSchema: {} }] }
    for (const method of ['tools/list', 'tools/call', 'resources/read']) {
      const { outcome, given } = await passed(method, { result })
      expect(outcome).toBe(given)
    }
    expect(filesMiddleware('prompts/list', () => true)).toBeUndefined()
  })

  it('are untouched where references are off for the server', async () => {
    const result = { content: [{ type: 'file', file: { uri: 'x:1' } }] }
    const { outcome, given } = await passed('tools/call', { result, upstream: 'off' })
    expect(outcome).toBe(given)
  })

  it('are left as they are if a file has no URI', async () => {
    const result = { content: [{ type: 'file', file: 5 }, { type: 'file' }] }
    const { outcome, given } = await passed('tools/call', { result })
    expect(outcome).toBe(given)
  })
})
