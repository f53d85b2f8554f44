import type { Call, Outcome } from '../../src/core/call.ts'
import type { Descriptor } from '../../src/core/descriptor.ts'
import { Payload } from '../../src/core/payload.ts'
import { largeResults } from '../../src/features/references/keep.ts'
import { references } from '../../src/features/references/references.ts'
import { type Reference, References } from '../../src/records/references.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { chain, fieldsOf, on } from './chain.ts'
import { featureDeps, type ServiceStubs } from './feature-deps.ts'
import type { Json } from './server/json.ts'
import { bytesOf } from './bytes-of.ts'

/** The settings of references in tests: small limits, and a short life. */
export const referenceSettings = {
  over: 1000,
  ttl: 60_000,
  argument: 100_000,
  total: 1_000_000,
  urls: false,
  url_ttl: 60_000,
  upload: 100_000,
  file_hosts: [],
  listed: true,
}

/** Settings of references in tests of records: data may be larger than a record, and lives as long as usual. */
export const recordSettings = {
  ...referenceSettings,
  ttl: 900_000,
  argument: 10_000_000,
  total: 100_000_000,
}

/** The caller whose data is kept. */
export const ada = { id: 'ada' }

type Settings = typeof referenceSettings & { readonly folder?: string }

interface Given extends ServiceStubs {
  readonly settings?: Settings
  /** The tool, and its server. */
  readonly definition?: Json
  readonly op?: 'read' | 'write'
  readonly command?: readonly string[]
  /** What the server does with each call. */
  serve?(args: Json, call: Call): Outcome | Promise<Outcome>
}

/** A tool called `name` in `definition`, else `t`, behind the features of references, and data of `ada`. */
export function referenceWorld({
  settings = referenceSettings,
  definition = {},
  op = 'read',
  command,
  serve,
  ...given
}: Given = {}) {
  const store = given.store ?? new MemoryStore()
  const got: Json[] = []
  const tool = {
    upstream: 'one',
    name: 't',
    classification: { op },
    ...definition,
    definition: { name: 't', ...definition },
  } as unknown as Descriptor
  const [program = '', ...args] = command ?? []
  const reach = command
    ? { kind: 'command', command: program, args }
    : { kind: 'url', url: 'https://one.example/mcp' }
  const deps = {
    store,
    servers: () => ['one'],
    server: () => ({ name: 'one', reach }) as unknown as ReturnType<NonNullable<ServiceStubs['server']>>,
    entry: () => tool,
    ...given,
  }
  const run = chain(
    [on(references, settings), on(largeResults, settings)],
    async (call) => {
      const sent = call.params.fields['arguments'] as Json
      got.push(sent)
      return (await serve?.(sent, call)) ?? { kind: 'result', result: Payload.of({ content: [] }) }
    },
    deps,
  )
  const kept = new References(store, settings)
  const keep = async (
    text: string | Uint8Array,
    type = 'text/plain',
    facts: Partial<Reference> = {},
  ): Promise<string> => {
    const { id } = await kept.add(
      ada,
      { server: 'one', name: 'data', type, ttl: 60_000, ...facts },
      bytesOf(text),
    )
    return `ref://${id}`
  }
  const outcome = (arguments_: Json = {}, more: Partial<Call> = {}): Promise<Outcome> =>
    run({ principal: ada, ...more }, { arguments: arguments_ })
  const call = async (arguments_: Json = {}, more: Partial<Call> = {}): Promise<Json> =>
    fieldsOf(await outcome(arguments_, more))
  return { store, got, call, outcome, keep, kept, deps: featureDeps(deps) }
}

/** The schema of a tool with the argument `value`. */
export function argumentSchema(property: Json, name = 'value'): Json {
  return { inputSchema: { type: 'object', properties: { [name]: property } } }
}
