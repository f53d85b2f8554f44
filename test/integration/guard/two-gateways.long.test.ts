// A gateway in front of a gateway: the shared features run once, in the gateway behind, if it is the expected one.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type FakeClient, connect } from '../../support/fake-client.ts'
import { type GatewayProcess, gatewayProgram, startGatewayProcess } from '../../support/gateway-process.ts'
import { folder } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import type { Revision } from '../../support/server/revisions.ts'

const OTHER_KEY = 'A'.repeat(43)

interface Behind {
  readonly gateway: GatewayProcess
  /** Its key, as it publishes it. */
  readonly key: string
  readonly root: string
}

/** A gateway with default settings in front of the published file system server. */
async function behind(): Promise<Behind> {
  const root = folder()
  const command = publishedServer('@modelcontextprotocol/server-filesystem', root)
  const gateway = await startGatewayProcess({ store: folder(), upstreams: { files: { command } } })
  onTestFinished(() => gateway.close())
  const published = await fetch(new URL('/.well-known/jwks.json', gateway.url))
  const { keys } = (await published.json()) as { keys: { kid: string }[] }
  return { gateway, root, key: String(keys[0]?.kid) }
}

/** The confirmation that a person receives and accepts. */
function person(): { readonly asked: string[]; answer(params: Json): Json } {
  const asked: string[] = []
  return {
    asked,
    answer: (params) => {
      asked.push(String(params['message']))
      return { action: 'accept', content: { confirm: true, decision: 'approve' } }
    },
  }
}

/** A client of a gateway in front, started by its command line as desktop clients do. */
async function inFront(
  args: readonly string[],
  revision: Revision,
  answer: (params: Json) => Json,
): Promise<FakeClient> {
  const [command = '', ...program] = gatewayProgram()
  const home = folder()
  const client = await connect({
    transport: 'stdio',
    command,
    args: [...program, 'stdio', ...args],
    env: { ...process.env, HOME: home, XDG_STATE_HOME: home },
    revision,
    capabilities: { elicitation: {} },
    answers: { 'elicitation/create': answer },
  })
  onTestFinished(() => client.close())
  return client
}

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'a client of %s of a gateway behind a gateway',
  (revision) => {
    test('confirms once, has its key kept, and gets the result of the gateway behind', async () => {
      const { gateway, key, root } = await behind()
      const { asked, answer } = person()
      const client = await inFront([gateway.url, '--gateway-key', key], revision, answer)
      const path = join(root, 'a.txt')
      const args = {
        name: 'write_file',
        arguments: { path, content: 'one' },
        _meta: { idempotency_key: 'k-1' },
      }
      const first = await client.request('tools/call', args)
      expect(first.text).toContain('Successfully wrote')
      expect(asked).toHaveLength(1)
      expect(objectAt(first.result ?? {}, '_meta')).toMatchObject({
        'dev.gatehouse/approval': expect.any(String),
        'dev.gatehouse/idempotency': { idempotency_key: 'k-1', was_replay: false },
      })
      writeFileSync(path, 'changed since')
      const again = await client.request('tools/call', args)
      expect(objectAt(again.result ?? {}, '_meta')).toMatchObject({
        'dev.gatehouse/idempotency': { was_replay: true },
      })
      expect(asked).toHaveLength(1)
      // The gateway behind has recorded the key, so direct callers of it get the replay too.
      const direct = await connect({ transport: 'http', url: gateway.url, revision, capabilities: {} })
      onTestFinished(() => direct.close())
      const replayed = await direct.request('tools/call', args)
      expect(objectAt(replayed.result ?? {}, '_meta')).toMatchObject({
        'dev.gatehouse/idempotency': { was_replay: true },
      })
      expect(namesIn(await client.request('tools/list'))).toEqual(namesIn(await direct.request('tools/list')))
      const read = { name: 'read_text_file', arguments: { path } }
      expect((await client.request('tools/call', read)).result).toEqual(
        (await direct.request('tools/call', read)).result,
      )
    })

    test('has its transaction in the gateway behind', async () => {
      const { gateway, key, root } = await behind()
      const { answer } = person()
      const client = await inFront([gateway.url, '--gateway-key', key], revision, answer)
      const transaction = { transaction_id: 'tidy-1' }
      await client.request('tools/call', { name: 'begin_transaction', arguments: transaction })
      const listed = await client.request('tools/call', {
        name: 'list_directory',
        arguments: { path: root },
        _meta: transaction,
      })
      expect(listed.result).toMatchObject({ content: expect.any(Array) })
      expect(listed.result).not.toHaveProperty('isError')
      const direct = await connect({ transport: 'http', url: gateway.url, revision, capabilities: {} })
      onTestFinished(() => direct.close())
      const status = await direct.request('tools/call', { name: 'get_transaction', arguments: transaction })
      expect(objectAt(status.result ?? {}, 'structuredContent')).toMatchObject({
        ...transaction,
        steps: [expect.objectContaining({ tool: 'list_directory' })],
      })
    })

    test('gets no response if the server behind has another key, whatever that server claims', async () => {
      const { gateway, key, root } = await behind()
      const posing = await relay(gateway.url)
      for (const args of [
        [gateway.url, '--gateway-key', OTHER_KEY],
        // A server that has a gateway prove the challenge that it received itself.
        [posing, '--gateway-key', key],
      ]) {
        const { asked, answer } = person()
        await expect(inFront(args, revision, answer)).rejects.toThrow('did not prove')
        expect(asked).toEqual([])
      }
      expect(existsSync(join(root, 'a.txt'))).toBe(false)
    })

    test('confirms at both gateways if the front one does not know the key of the one behind', async () => {
      const { gateway, root } = await behind()
      const { asked, answer } = person()
      const client = await inFront([gateway.url], revision, answer)
      const path = join(root, 'a.txt')
      const written = await client.request('tools/call', {
        name: 'write_file',
        arguments: { path, content: 'one' },
      })
      expect(written.text).toContain('Successfully wrote')
      expect(asked).toHaveLength(2)
    })
  },
)

/** A server that forwards everything to a gateway, and its responses back. */
async function relay(url: string): Promise<string> {
  const server: Server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers
      const body = request.method === 'POST' ? Buffer.concat(parts) : null
      void fetch(url, { method: request.method ?? 'POST', headers: headers as Record<string, string>, body })
        .then(async (answer) => {
          const { 'content-encoding': _encoding, ...rest } = Object.fromEntries(answer.headers)
          response.writeHead(answer.status, rest).end(Buffer.from(await answer.arrayBuffer()))
        })
        .catch(() => response.writeHead(502).end())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
}

function namesIn({ result }: { readonly result?: Json | undefined }): unknown[] {
  return ((result?.['tools'] ?? []) as Json[]).map(({ name }) => name)
}
