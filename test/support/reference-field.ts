import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Secret } from '../../src/core/text/secret.ts'
import { type Reference, References } from '../../src/records/references.ts'
import { openPortable } from '../../src/store/portable.ts'
import { FOREVER, type PortableStore } from '../../src/store/store.ts'
import { piecesOf } from '../bench/large-text.ts'
import { type KillableGateways, killableGateways } from './planned-kills.ts'
import { scriptedServer } from './scripted-server.ts'
import { type Json, objectAt } from './server/json.ts'
import { silentLog } from './silent-log.ts'

/** How long data is kept, in milliseconds. */
export const TTL_MS = 15_000
/** How old data is that counts as unfinished where it has no record, and how much older it is made to look. */
const AGE_MS = 8000
const OLDER_MS = 3_600_000

/** What the store has: the references that have not expired, and the bytes that are kept. */
interface Content {
  readonly records: readonly Reference[]
  /** By the id of the blob; finished ones only. */
  readonly blobs: ReadonlyMap<string, number>
  /** The names of files, or the keys of values, that hold bytes, whatever they are. */
  readonly names: readonly string[]
}

/** Two gateways that share a store and are killed at planned points, in front of a server with large results. */
export interface ReferenceField extends Pick<KillableGateways, 'gateways' | 'killing' | 'kill'> {
  /** Makes what was written a while ago look so old that a sweep deletes it if it has no record. */
  age(): Promise<void>
  /** Sweeps as if much time had passed, and looks at what is left. */
  swept(): Promise<Content>
  close(): Promise<void>
}

const tools = [
  { name: 'get_text', inputSchema: { type: 'object', properties: { bytes: { type: 'integer' } } } },
  { name: 'digest', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } },
].map((tool) => ({ ...tool, annotations: { readOnlyHint: true, openWorldHint: false } }))

/** A server whose tools return a text of a size, and the SHA-256 of a text. */
function largeServer(): ReturnType<typeof scriptedServer> {
  const text = (value: string): Json => ({ content: [{ type: 'text', text: value }] })
  return scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'tools/call': ({ params }) => {
        const args = objectAt(params, 'arguments')
        if (params['name'] === 'get_text') return text([...piecesOf(Number(args['bytes']))].join(''))
        return text(createHash('sha256').update(String(args['text'])).digest('hex'))
      },
    },
  )
}

/** Starts them; `redis` is the URL of their store, a folder of their own where it is absent. */
export async function startReferenceField(redis: string | undefined): Promise<ReferenceField> {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-references-'))
  const server = await largeServer()
  const path = join(home, 'store')
  const configFile = join(home, 'gateway.config.yaml')
  const config = {
    store: redis ?? path,
    limits: { concurrency: 'off', rate: 'off' },
    features: {
      breaker: { pause: '250ms' },
      references: { ttl: `${TTL_MS / 1000}s` },
      // The data of calls that go on is kept longer than the test lasts.
      progress: 'off',
    },
    upstreams: { large: { url: server.url, revision: '2025-11-25', trust: true } },
  }
  writeFileSync(configFile, JSON.stringify(config))
  const killable = await killableGateways(configFile, '/mcp/large')
  const store = await openPortable(
    redis === undefined ? { kind: 'folder', path } : { kind: 'redis', url: new Secret(redis) },
    silentLog,
  )
  const close = async (): Promise<void> => {
    await killable.kill()
    await Promise.all([server.close(), store.close()])
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
  try {
    await killable.start()
    await store.opened?.()
  } catch (error) {
    await close()
    throw error
  }
  const folder = redis === undefined ? join(path, 'blobs') : undefined
  return {
    ...killable,
    age: async () => (folder === undefined ? ageValues(store) : ageFiles(folder)),
    swept: async () => {
      await new References(store, { total: 1 }, () => Date.now() + OLDER_MS).sweep()
      return contentOf(store, folder)
    },
    close,
  }
}

function ageFiles(folder: string): void {
  for (const name of namesIn(folder)) {
    const path = join(folder, name)
    const { mtimeMs = Date.now() } = statSync(path, { throwIfNoEntry: false }) ?? {}
    if (mtimeMs > Date.now() - AGE_MS) continue
    try {
      utimesSync(path, new Date(), new Date(Date.now() - OLDER_MS))
    } catch {
      // It has been deleted.
    }
  }
}

async function ageValues(store: PortableStore): Promise<void> {
  for (const [key, text] of await store.scan('blob')) {
    const entry = JSON.parse(text) as Json
    if (Number(entry['writtenAt']) > Date.now() - AGE_MS) continue
    const older = JSON.stringify({ ...entry, writtenAt: Date.now() - OLDER_MS })
    await store.compareAndSwap(key, text, older, FOREVER)
  }
}

async function contentOf(store: PortableStore, folder: string | undefined): Promise<Content> {
  const records = [...(await store.scan('reference')).values()].map((text) => JSON.parse(text) as Reference)
  const listed = await store.blobs.list()
  const whole = await Promise.all(
    listed.map(async ({ id, size }) => ((await store.blobs.open(id)) ? [[id, size] as const] : [])),
  )
  const blobs = new Map(whole.flat())
  if (folder !== undefined) return { records, blobs, names: namesIn(folder) }
  const names: string[] = []
  // An announcement that bytes are deleted holds none, and expires.
  for await (const { key } of store.entries()) if (/^blob(?!-swept:)/.test(key)) names.push(key)
  return { records, blobs, names }
}

function namesIn(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : []
}
