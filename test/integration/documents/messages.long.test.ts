import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { everythingOn, filesOfTheirOwner, memoryOfItsOwner } from '../../support/everything-on.ts'
import { connect } from '../../support/fake-client.ts'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { fiveServers, names } from '../../support/five-servers.ts'
import { hasMessageSchemas, MessageSchemas } from '../../support/message-schemas.ts'
import type { RunningGateway } from '../../support/gateway.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'
import { type Revision, revisions, traitsOf } from '../../support/server/revisions.ts'
import { tour } from '../../support/tour.ts'

const fakes = { 'fake-new': '2026-07-28', 'fake-recent': '2025-11-25', 'fake-old': '2024-11-05' } as const
const endpoints = [undefined, ...names, ...Object.keys(fakes)]

let folder = ''
let gateway: RunningGateway | undefined
let origin = ''

beforeAll(async () => {
  if (!hasMessageSchemas) return
  folder = await mkdtemp(join(tmpdir(), 'gatehouse-messages-'))
  await writeFile(join(folder, 'masked.txt'), 'xyzzy and more\n')
  await writeFile(join(folder, 'large.txt'), 'a line of text\n'.repeat(20_000))
  const theirs = Object.entries(fakes).map(([name, revision]) => {
    const { command, args } = fakeServerCommand({ revision, pageSize: 7 })
    return [name, { command: [command, ...args], roots: 'client' }] as const
  })
  gateway = await fiveServers(folder, {
    ...everythingOn,
    upstreams: {
      files: filesOfTheirOwner,
      memory: memoryOfItsOwner,
      everything: { roots: 'client' },
      ...Object.fromEntries(theirs),
      away: { url: 'http://127.0.0.1:9/mcp' },
    },
  })
  origin = new URL(gateway.url).origin
})
afterAll(async () => {
  await gateway?.close()
  if (folder !== '') await rm(folder, { recursive: true, force: true })
})

/** A message that a client received, and the method of its request. */
interface Recorded {
  readonly message: Json
  readonly asked: string | undefined
}

describe.skipIf(!hasMessageSchemas).concurrent.each(revisions)(
  'with all features on, a client of %s',
  (revision) => {
    test('receives only messages that fit the schema of its revision', async () => {
      const recorded: Recorded[] = []
      const violations: unknown[] = []
      for (const server of endpoints) {
        const client = await connected(
          revision,
          server,
          (message, asked) => void recorded.push({ message, asked }),
        )
        await tour({ client, server, folder })
        if (server === 'fake-new' || server === 'files') await unable(revision, server, recorded)
        violations.push(...client.violations)
        await client.close()
      }
      const schemas = new MessageSchemas(revision)
      const faults = recorded.flatMap(({ message, asked }) =>
        schemas.faults(message, asked).map((fault) => `${asked ?? String(message['method'])}: ${fault}`),
      )
      expect([...new Set(faults)]).toEqual([])
      expect(violations).toEqual([])
      expect(kindsOf(recorded)).toEqual(expect.arrayContaining(kindsFor(revision)))
      expect(extensionsOf(recorded)).toEqual(expect.arrayContaining(extensions))
    })
  },
)

const answers = {
  'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada', confirm: true } }),
  'sampling/createMessage': () => ({
    role: 'assistant',
    model: 'a model',
    content: { type: 'text', text: 'Paris' },
  }),
  'roots/list': () => ({ roots: [{ uri: 'file:///srv' }] }),
}

function connected(
  revision: Revision,
  server: string | undefined,
  records: (message: Json, asked: string | undefined) => void,
  able: Json = { answers },
) {
  const { streamable, modern } = traitsOf(revision)
  const transport = streamable ? 'http' : 'sse'
  const url = `${origin}/${streamable ? 'mcp' : 'sse'}${server === undefined ? '' : `/${server}`}`
  const headers = modern ? { 'mcp-protocol-version': revision } : {}
  return connect({ revision, transport, url, headers, records, logLevel: 'debug', ...able })
}

/** Sends requests of a client without elicitation, and with an unknown version. */
async function unable(revision: Revision, server: string, recorded: Recorded[]): Promise<void> {
  const client = await connected(
    revision,
    server,
    (message, asked) => void recorded.push({ message, asked }),
    {},
  )
  const path = join(folder, 'masked.txt')
  const moving = { name: 'move_file', arguments: { source: path, destination: `${path}.moved` } }
  await client.request('tools/call', server === 'files' ? moving : { name: 'ask_form', arguments: {} })
  if (client.traits.modern) {
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2027-01-01' }
    await client.request('tools/list', { _meta })
    await client.request('tools/list', {}, { headers: { 'mcp-method': 'tools/call' } })
  }
  await client.close()
}

/** The kinds of messages received: replies by method, errors by code. */
function kindsOf(recorded: readonly Recorded[]): string[] {
  const kinds = recorded.map(({ message: { method, error, result }, asked }) => {
    if (method !== undefined) return String(method)
    if (isObject(error)) return `error ${String(error['code'])}`
    return objectAt({ result }, 'result')['resultType'] === 'input_required'
      ? 'input_required'
      : String(asked)
  })
  return [...new Set(kinds)].toSorted()
}

function kindsFor(revision: Revision): string[] {
  const { modern, elicitation } = traitsOf(revision)
  const lists = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']
  const others = ['tools/call', 'prompts/get', 'resources/read', 'completion/complete', 'skills/list']
  const told = ['progress', 'message', 'tools/list_changed', 'resources/updated']
  const questions = ['sampling/createMessage', 'roots/list', ...(elicitation ? ['elicitation/create'] : [])]
  const own = modern
    ? ['server/discover', 'input_required', 'error -32020', 'error -32021', 'error -32022']
    : ['initialize', 'ping', 'logging/setLevel', 'error -32002', ...questions]
  return [
    ...[...lists, ...others, ...own],
    ...told.map((name) => `notifications/${name}`),
    ...['error -32601', 'error -32602', 'error -32603', 'error -32003'],
  ]
}

/** The additions of features to results, by their key in `_meta`. */
const extensions = [
  ...['contract', 'dashdash', 'manifest', 'error', 'usage', 'provenance', 'receipt', 'suggestion'],
  ...['idempotency', 'transaction', 'truncated', 'masked', 'rate_limit', 'confirmation'],
]

function extensionsOf(recorded: readonly Recorded[]): string[] {
  const keys = recorded.flatMap(({ message }) => Object.keys(objectAt(objectAt(message, 'result'), '_meta')))
  return [...new Set(keys.map((key) => key.replace('dev.gatehouse/', '')))].toSorted()
}
