/**
 * Agent frameworks that adapt the tools of MCP servers, with the default configuration: a model must get the same result
 * through the gateway as directly, since these frameworks read members of results that other clients drop.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RunningGateway, startGateway } from '../support/gateway.ts'
import { everything, publishedServer } from '../support/peers/servers.ts'
import { isObject } from '../support/server/json.ts'
import { buildAdapters } from './toolchains.ts'

const run = promisify(execFile)
const TIMEOUT_MS = 120_000

const built = await buildAdapters()
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-test-')))
const hello = join(folder, 'hello.txt')
const kept = join(folder, 'kept.txt')
writeFileSync(hello, 'hello\n')
writeFileSync(kept, 'x')

type Arguments = Readonly<Record<string, unknown>>
interface Served {
  readonly command: readonly string[]
  readonly calls: readonly (readonly [tool: string, given: Arguments])[]
}

const served: Readonly<Record<string, Served>> = {
  everything: {
    command: publishedServer(everything),
    calls: [
      ['echo', { message: 'hello' }],
      ['get-sum', { a: 1, b: 2 }],
      ['get-structured-content', { location: 'Chicago' }],
      ['get-tiny-image', {}],
      ['get-resource-reference', { resourceType: 'Text', resourceId: 1 }],
      ['get-resource-links', { count: 2 }],
      ['get-annotated-message', { messageType: 'success', includeImage: true }],
    ],
  },
  files: {
    command: publishedServer('@modelcontextprotocol/server-filesystem', folder),
    calls: [
      ['read_text_file', { path: hello }],
      ['list_directory', { path: folder }],
      ['write_file', { path: kept, content: 'x' }],
      ['read_text_file', { path: join(folder, 'none.txt') }],
    ],
  },
  memory: {
    command: publishedServer('@modelcontextprotocol/server-memory'),
    calls: [
      ['read_graph', {}],
      ['search_nodes', { query: 'nothing' }],
    ],
  },
}

let gateway: RunningGateway
beforeAll(async () => {
  const upstreams = Object.fromEntries(
    Object.entries(served).map(
      ([
        name,
        {
          command: [command = '', ...args],
        },
      ]) => {
        return [name, { command, args, env: environmentOf('through') }] as const
      },
    ),
  )
  // No person can confirm here, and these tests are not about confirmation.
  gateway = await startGateway({ features: { confirm: 'off' }, upstreams })
})
afterAll(async () => {
  await gateway.close()
  rmSync(folder, { recursive: true, force: true })
})

describe.each(Object.keys(served))('the server %s', (name) => {
  test('gives LangChain and the AI SDK the same through the gateway as directly', async ({ skip }) => {
    if ('missing' in built) return skip(built.missing)
    const { command: [command = '', ...args] = [], calls = [] } = served[name] ?? {}
    const seen = async (target: object): Promise<unknown> => {
      const [program = '', ...given] = built.client
      const { stdout } = await run(program, [...given, JSON.stringify({ target, calls })], {
        timeout: TIMEOUT_MS,
      })
      return ofAnyRevision(JSON.parse(stdout.replaceAll(/created at [\d:]+ [AP]M/g, 'created')))
    }
    const direct = await seen({ command, args, env: environmentOf('direct') })
    expect(await seen({ url: `${gateway.url}/${name}` })).toEqual(direct)
    expect(direct).toMatchObject({
      langchain: { results: calls.map(() => expect.anything()) },
      aiSdk: { results: calls.map(() => expect.objectContaining({ value: expect.anything() })) },
    })
  })
})

/**
 * A result without the members that each result of 2026-07-28 has: the AI SDK uses that revision with the gateway, and
 * the handshake of an older revision with these servers, and passes whole results on to programs. Also without the
 * classification of a failure, which the gateway adds to `_meta`.
 */
function ofAnyRevision(seen: unknown): unknown {
  return JSON.parse(JSON.stringify(seen), (_key, value: unknown) => {
    if (!isObject(value) || value['resultType'] !== 'complete') return value
    const { resultType: _type, _meta: meta, ...rest } = value
    const {
      'io.modelcontextprotocol/serverInfo': _info,
      'dev.gatehouse/error': _error,
      ...others
    } = isObject(meta) ? meta : {}
    return Object.keys(others).length > 0 ? { ...rest, _meta: others } : rest
  })
}

/** Each run keeps its graph in its own file. */
function environmentOf(run: string): Record<string, string> {
  return { MEMORY_FILE_PATH: join(folder, `${run}.jsonl`) }
}
