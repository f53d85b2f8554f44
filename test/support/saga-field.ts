import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { until } from './condition.ts'
import { mortal, type MortalGateway, startAll } from './crash-field.ts'
import { effectsOf, pidsOf, startEffects } from './effects.ts'
import { publishedServer } from './peers/servers.ts'
import type { Json } from './server/json.ts'
import { steadyPort } from './steady-port.ts'
import { undoableFiles } from './undoable-files.ts'

/** Gateways that share a store, in front of three servers: files, a graph and effects. */
export interface SagaField {
  readonly gateways: readonly [MortalGateway, ...MortalGateway[]]
  /** Where the files are. */
  readonly folder: string
  /** The file the effects are lines of. */
  readonly effectsLog: string
  world(): World
  /** Kills the processes of a server; it is there again when it is needed. */
  killServer(server: Server): Promise<void>
  /** Resolves once what was begun by servers that outlived their gateways is done. */
  settled(): Promise<void>
  close(): Promise<void>
}

type Server = 'files' | 'graph' | 'effects'

/** How everything is. */
export interface World {
  /** What a file holds; nothing where it is not there. */
  file(name: string): string | undefined
  readonly entities: ReadonlySet<string>
  /** From which entity to which one, such as `one>other`. */
  readonly relations: ReadonlySet<string>
  /** The keys of the effects. */
  readonly effects: ReadonlySet<string>
}

/** How what the steps do is undone. */
const graph = {
  create_entities: { undo: 'delete_entities(entityNames=$.args.entities[*].name)' },
  create_relations: { undo: 'delete_relations(relations=$.args.relations)' },
}
const effects = {
  add_effect: { undo: 'remove_effect(id=$.result.id)', timeout: '1s' },
  remove_effect: { timeout: '1s' },
}

/** Starts the servers and so many gateways. */
export async function startSagaField(count: number): Promise<SagaField> {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-sagas-'))
  const folder = join(home, 'files')
  mkdirSync(folder)
  const effectsLog = join(home, 'effects.log')
  const pids = { files: join(home, 'files.pids'), graph: join(home, 'graph.pids') }
  const graphFile = join(home, 'graph.jsonl')
  const server = await startEffects(effectsLog, await steadyPort())
  const upstreams = {
    files: {
      command: turnTaking(
        ['--pids', pids.files],
        publishedServer('@modelcontextprotocol/server-filesystem', folder),
      ),
      tools: undoableFiles,
    },
    // Every call reads the whole file and writes it, so two at once would lose one.
    graph: {
      command: turnTaking(
        ['--pids', pids.graph, '--port', String(await steadyPort())],
        publishedServer('@modelcontextprotocol/server-memory'),
      ),
      env: { MEMORY_FILE_PATH: graphFile },
      tools: graph,
    },
    effects: { url: server.url, tools: effects },
  }
  const configFile = join(home, 'gateway.config.yaml')
  writeFileSync(configFile, JSON.stringify(configuration(upstreams)))
  const made = await Promise.all(Array.from({ length: count }, () => mortal(configFile, '/mcp')))
  const close = async (): Promise<void> => {
    await Promise.all(made.map((each) => each.kill()))
    await server.kill()
    for (const pid of [...pidsOf(pids.files), ...pidsOf(pids.graph)]) process.kill(pid, 'SIGKILL')
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
  const gateways = await startAll(made, close)
  return {
    gateways,
    folder,
    effectsLog,
    world: () => worldOf({ folder, graphFile, effectsLog }),
    killServer: async (name) => {
      if (name !== 'effects') return pidsOf(pids[name]).forEach((pid) => process.kill(pid, 'SIGKILL'))
      await server.kill()
      await server.start()
    },
    settled: async () => {
      const areOver = (file: string): boolean => pidsOf(file).length <= count
      await until(() => Object.values(pids).every(areOver), 'the servers of killed gateways to end')
      await server.settled()
    },
    close,
  }
}

function configuration(upstreams: Readonly<Record<string, Json>>): Json {
  const common = { revision: '2025-11-25', trust: true }
  return {
    store: './store',
    limits: { concurrency: 'off', rate: 'off' },
    features: {
      breaker: { pause: '250ms' },
      confirm: 'off',
      idempotency: { max_keys: 100_000 },
      transactions: { max_active: 1000 },
    },
    upstreams: Object.fromEntries(
      Object.entries(upstreams).map(([name, own]) => [name, { ...common, ...own }]),
    ),
  }
}

function turnTaking(options: readonly string[], command: readonly string[]): readonly string[] {
  return [process.execPath, program, ...options, '--', ...command]
}

const program = fileURLToPath(new URL('turn-taker.ts', import.meta.url))

interface Places {
  readonly folder: string
  readonly graphFile: string
  readonly effectsLog: string
}

function worldOf({ folder, graphFile, effectsLog }: Places): World {
  const text = existsSync(graphFile) ? readFileSync(graphFile, 'utf8') : ''
  const lines = text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, string>)
  const named = (type: string): Record<string, string>[] => lines.filter((line) => line['type'] === type)
  return {
    file: (name) => {
      const path = join(folder, name)
      return existsSync(path) ? readFileSync(path, 'utf8') : undefined
    },
    entities: new Set(named('entity').map(({ name = '' }) => name)),
    relations: new Set(named('relation').map(({ from, to }) => `${from}>${to}`)),
    effects: new Set(effectsOf(effectsLog).map(({ key }) => key)),
  }
}
