import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { createRequestStateCodec } from '../../../src/protocol/request-state.ts'
import type { Handler } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { anonymous } from '../../../src/core/principal.ts'
import { serveStdio } from '../../../src/downstream/stdio.ts'
import { silentLog } from '../../support/silent-log.ts'

/** A server that returns its name and echoes. */
const handle: Handler = async ({ method, params, principal }) => {
  if (method === 'server/discover')
    return { kind: 'result', result: Payload.of({ capabilities: { tools: {} } }) }
  if (method === 'prompts/get') return { kind: 'result', result: Payload.of({ id: principal.id }) }
  return { kind: 'result', result: Payload.of({ content: [], echo: params.value }) }
}

/** The responses to a client of a revision that writes these lines and closes its end. */
async function answersTo(
  revision: string,
  lines: readonly string[],
  principal = anonymous,
): Promise<unknown[]> {
  const input = new PassThrough()
  const output = new PassThrough()
  const served = serveStdio(input, output, {
    principal,
    handle,
    seal: createRequestStateCodec(Date.now),
    limit: 10_000,
    log: silentLog,
  })
  const initialize = { protocolVersion: revision, capabilities: {}, clientInfo: { name: 'c', version: '1' } }
  input.write(`${JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: initialize })}\n`)
  await lineOf(output)
  const answers: unknown[] = []
  for (const line of lines) {
    input.write(`${line}\n`)
    answers.push(await lineOf(output))
  }
  input.end()
  await served
  return answers
}

async function lineOf(output: PassThrough): Promise<unknown> {
  for (;;) {
    const chunk: unknown = output.read()
    if (chunk !== null) return JSON.parse(String(chunk))
    await once(output, 'readable')
  }
}

const batch =
  '[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"n":1.0}}]'

describe('a batch on stdio', () => {
  it('a batch of a 2025-03-26 client is answered with an array', async () => {
    expect(await answersTo('2025-03-26', [batch])).toEqual([
      [
        { jsonrpc: '2.0', id: 1, result: {} },
        { jsonrpc: '2.0', id: 2, result: { content: [], echo: { n: 1 } } },
      ],
    ])
  })

  it.each(['2024-11-05', '2025-06-18', '2025-11-25'])(
    'a batch of a %s client is refused',
    async (revision) => {
      expect(await answersTo(revision, [batch])).toMatchObject([{ id: null, error: { code: -32600 } }])
    },
  )

  it.each([
    ['that is empty', '[]', -32600],
    ['that is truncated', '[{"jsonrpc":"2.0","id":1', -32700],
    ['that contains initialize', '[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]', -32600],
  ])('a batch %s is refused, and the next message is served', async (_what, line, code) => {
    const ping = '{"jsonrpc":"2.0","id":9,"method":"ping"}'
    expect(await answersTo('2025-03-26', [line, ping])).toMatchObject([
      { error: { code } },
      { id: 9, result: {} },
    ])
  })
})

describe('a call on stdio', () => {
  const principal = { id: 'me' }

  it.each(['2025-03-26', '2025-11-25'])('a call has the configured principal, in %s', async (revision) => {
    const line = '{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}'
    const [answer] = await answersTo(revision, [line], principal)
    expect(answer).toMatchObject({ result: { id: 'me' } })
  })
})

it('a client that stopped reading is treated as disconnected', async () => {
  const input = new PassThrough()
  const output = new PassThrough()
  const served = serveStdio(input, output, {
    principal: anonymous,
    handle,
    seal: createRequestStateCodec(Date.now),
    limit: 10_000,
    log: silentLog,
  })
  output.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))
  await expect(served).resolves.toBeUndefined()
})
