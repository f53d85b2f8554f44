/** The last lists of servers, for descriptions. Stale lists are served while they are refreshed. */
import { listAllPages } from '../protocol/listing.ts'
import { createHash } from 'node:crypto'
import { world } from '../core/world.ts'
import {
  type Call,
  type Handler,
  resultOf,
  type Outcome,
  type Middleware,
  type Target,
} from '../core/call.ts'
import type {
  Descriptor,
  EntryDefinition,
  ServerRecords,
  ToolStatistics,
  ServerRecord,
  ToolFacts,
  ToolDetails,
} from '../core/descriptor.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { mentionsPages } from '../core/judgement/pages.ts'
import { background, type Log } from '../core/log.ts'
import type { Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { aliasOf } from '../core/text/alias.ts'
import { excerpt } from '../core/text/redact.ts'
import { within } from '../core/time/waiting.ts'
import { ownCall } from '../protocol/lift.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import { method } from '../protocol/methods.ts'

interface RecordSources {
  readonly servers: ReadonlyMap<string, Source>
  /** The descriptor of a listed tool. */
  listed(
    upstream: string,
    definition: EntryDefinition,
    list?: readonly EntryDefinition[],
  ): Descriptor | undefined
  /** The facts that features report about a tool. */
  facts(entry: Descriptor, all: readonly Descriptor[]): ToolFacts
  /** The statistics of a tool. */
  seen(entry: Descriptor): ToolStatistics | undefined
  readonly log: Log
}

/** A server to describe. */
interface Source {
  readonly settings: UpstreamSettings
  readonly handle: Handler
  readonly status: { readonly problem?: string }
}

/** The lists of a server. */
type Lists = Omit<ServerRecord, 'name' | 'isUp' | 'about' | 'tools' | 'changedAt'> & {
  readonly tools: readonly Descriptor[]
}

/**
 * How long lists are considered fresh, how long an unreachable server is not queried again, and how long the first
 * lists may take, in milliseconds.
 */
const LISTS_STALE_MS = 10_000
const UNREACHABLE_PAUSE_MS = 30_000
const LIST_TIMEOUT_MS = 5000
/** The minimum interval between two listings, in milliseconds. */
const MIN_RENEWAL_INTERVAL_MS = 1000

/** Keeps the lists of servers for descriptions. A stale list is served while it is refreshed. */
export function createRecords(options: RecordSources): ServerRecords {
  const listeners: ((upstream: string) => void)[] = []
  const known = new Map(
    [...options.servers].map(([name, source]) => [name, new Known(source, options)] as const),
  )
  for (const [name, record] of known) record.onChange = () => listeners.forEach((listener) => listener(name))
  return {
    names: [...known.keys()],
    of: (upstream) => {
      const found = known.get(upstream)
      if (!found) throw new TypeError(`There is no server named ${upstream}.`)
      return found.record()
    },
    last: (upstream) => known.get(upstream)?.last,
    renew: (upstream) => known.get(upstream)?.renew(),
    onChange: (listener) => void listeners.push(listener),
  }
}

/** The lists of one server. */
class Known {
  onChange: () => void = () => undefined
  readonly #source: Source
  readonly #options: RecordSources
  #lists: Lists | undefined
  #tools: readonly ToolDetails[] = []
  #listedAt = Number.NEGATIVE_INFINITY
  #changedAt: number | undefined
  #listing: Promise<void> | undefined
  #isRenewing = false
  #isDown = false
  /** Whether somebody may have a record from before the next lists. */
  #isDescribed = false
  /** Until when the first lists are waited for, by all who ask; on the monotonic clock. */
  #waitsUntil: number | undefined

  constructor(source: Source, options: RecordSources) {
    this.#source = source
    this.#options = options
  }

  get last(): ServerRecord | undefined {
    return this.#lists && this.#record()
  }

  record(): ServerRecord | Promise<ServerRecord> {
    const isDown = this.#source.status.problem !== undefined
    // Calls are attempted anyway.
    if (isDown && !this.#isDown) this.#listedAt = world.monotonic()
    this.#isDown = isDown
    if (world.monotonic() - this.#listedAt > this.#staleAfter) {
      this.#listing ??= this.#list().finally(() => {
        this.#listing = undefined
      })
      this.#waitsUntil ??= world.monotonic() + LIST_TIMEOUT_MS
      const left = this.#waitsUntil - world.monotonic()
      if (!this.#lists && left > 0) return within(this.#listing, left, undefined).then(() => this.#record())
      background(this.#listing, this.#options.log)
    }
    return this.#record()
  }

  get #staleAfter(): number {
    if (this.#isDown) return UNREACHABLE_PAUSE_MS
    // Without any, its first lists failed although it can be reached.
    return this.#lists ? LISTS_STALE_MS : MIN_RENEWAL_INTERVAL_MS
  }

  /** Limited in frequency, however often the server reports changes. */
  renew(): void {
    if (this.#isRenewing) return
    this.#isRenewing = true
    const wait = Math.max(0, this.#listedAt + MIN_RENEWAL_INTERVAL_MS - world.monotonic())
    world
      .setTimeout(() => {
        const listed = (this.#listing ?? Promise.resolve()).then(() => {
          this.#isRenewing = false
          this.#listedAt = Number.NEGATIVE_INFINITY
          return this.record()
        })
        background(listed, this.#options.log)
      }, wait)
      .unref()
  }

  #record(): ServerRecord {
    const { settings, status } = this.#source
    const { tools: _tools, ...lists } = this.#lists ?? nothing
    this.#isDescribed = true
    return {
      name: settings.name,
      isUp: status.problem === undefined && this.#lists !== undefined,
      about: settings.about,
      ...lists,
      tools: this.#tools.map((tool) => {
        const seen = this.#options.seen(tool.entry)
        return seen ? { ...tool, statistics: seen } : tool
      }),
      ...(this.#changedAt !== undefined && { changedAt: this.#changedAt }),
    }
  }

  async #list(): Promise<void> {
    const before = this.#lists?.contentVersion
    try {
      const lists = await listsOf(this.#source, this.#options)
      this.#listedAt = world.monotonic()
      if (lists.contentVersion === before) return
      this.#lists = lists
      this.#tools = lists.tools.map((entry) => {
        return { entry, alias: aliasOf(entry.name), facts: this.#options.facts(entry, lists.tools) }
      })
      if (before !== undefined) this.#changedAt = world.now()
      if (this.#isDescribed) this.onChange()
    } catch (error) {
      this.#listedAt = world.monotonic()
      this.#options.log.debug('record.unlisted', {
        upstream: this.#source.settings.name,
        cause: excerpt(String(error)),
      })
    }
  }
}

const nothing: Lists = {
  info: {},
  capabilities: {},
  tools: [],
  prompts: [],
  resources: [],
  resourceTemplates: [],
  contentVersion: '',
}

async function listsOf({ settings, handle }: Source, { listed }: RecordSources): Promise<Lists> {
  const { name } = settings
  const { discovered, tools, ...lists } = await readLists(handle, name)
  const { capabilities, instructions, _meta: meta } = discovered.fields
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : undefined
  return {
    ...lists,
    info: asObject(info),
    ...(typeof instructions === 'string' && instructions !== '' && { instructions }),
    capabilities: asObject(capabilities),
    tools: tools.flatMap((each) => listed(name, each, tools) ?? []),
  }
}

/** What a server says of itself, and the entries of each list that it declares. */
type ReadLists = Pick<ServerRecord, 'prompts' | 'resources' | 'resourceTemplates' | 'contentVersion'> & {
  readonly discovered: Payload
  readonly tools: readonly EntryDefinition[]
}

/** Reads the lists of a server. @throws the errors of its requests */
export async function readLists(handle: Handler, upstream: string): Promise<ReadLists> {
  const call: Call = ownCall({ target: { upstream, method: 'server/discover' } })
  const discovered = resultOf(await handle(call))
  const reading = lists.map(async (list) =>
    isDeclared(list, discovered) ? listAllPages(handle, call, list) : [],
  )
  // What is wrong with the others is known by then.
  await Promise.allSettled(reading)
  const read = await Promise.all(reading)
  const [tools = [], prompts = [], resources = [], resourceTemplates = []] = read.map((list) =>
    list.map(({ fields }) => fields),
  )
  const contentVersion = versionOf([discovered, ...read.flat()])
  return { discovered, tools, prompts, resources, resourceTemplates, contentVersion }
}

const lists = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']

function isDeclared(list: string, { fields: { capabilities } }: Payload): boolean {
  const { capability } = method(list)
  return isObject(capabilities) && capability !== undefined && isObject(capabilities[capability])
}

function versionOf(parts: readonly Payload[]): string {
  const hash = createHash('sha256')
  for (const { text } of parts) hash.update(text).update('\n')
  return hash.digest('hex').slice(0, 16)
}

// Samples calls for descriptions: the duration and the content types of results. Disabled until the first description.

/** The number of recent samples that determine the duration of a tool, and the minimum number needed. */
const MAX_SAMPLES = 200
const MIN_SAMPLES = 5
/**
 * After that many, one in this many calls is sampled: a number that is unlikely to divide the period of regular calls.
 */
const SAMPLE_INTERVAL = 7
/** The maximum number of media types per tool, and of tools. */
const MAX_MEDIA_TYPES = 20
const MAX_TOOLS = 10_000

/** Observes calls on their way to servers. */
interface CallStatistics {
  /** Samples the calls of one tool. */
  middleware(target: Target): Middleware | undefined
  of(entry: Descriptor): ToolStatistics | undefined
}

/** Collects statistics of tool calls, for descriptions. */
export function createCallStatistics(): CallStatistics {
  const tools = new Map<string, ToolSamples>()
  const sighting = (upstream: string, tool: string): ToolSamples => {
    const key = `${upstream} ${tool}`
    const found = tools.get(key)
    if (found) return found
    const added = new ToolSamples()
    if (tools.size < MAX_TOOLS) tools.set(key, added)
    return added
  }
  return {
    middleware: ({ isBuiltin, upstream, method, name }) => {
      if (isBuiltin || upstream === undefined || method !== 'tools/call' || name === undefined)
        return undefined
      let seen: ToolSamples | undefined
      let calls = 0
      return (next) => (call) => {
        if (++calls > MAX_SAMPLES && calls % SAMPLE_INTERVAL !== 0) return next(call)
        const start = world.monotonic()
        return next(call).then((outcome) => {
          // A name only becomes a tool once the server has answered a call of it.
          seen ??= sighting(upstream, name)
          seen.note(outcome, world.monotonic() - start)
          return outcome
        })
      }
    },
    of: ({ upstream, name }) => tools.get(`${upstream} ${name}`)?.record,
  }
}

/** The samples of one tool. */
class ToolSamples {
  #hasCursor = false
  #calls = 0
  readonly #durations: number[] = []
  readonly #types = new Set<string>()

  note(outcome: Outcome, duration: number): void {
    if (outcome.kind !== 'result') return
    this.#durations[this.#calls % MAX_SAMPLES] = duration
    this.#calls++
    const isLookedAt = this.#calls <= MAX_SAMPLES || this.#calls % MAX_SAMPLES === 0
    if (isLookedAt && outcome.result.member('isError') !== true) this.#look(outcome.result)
  }

  get record(): ToolStatistics {
    const sorted = this.#durations.toSorted((one, other) => one - other)
    const middle = sorted[Math.floor(sorted.length / 2)] ?? 0
    return {
      ...(sorted.length >= MIN_SAMPLES && { p50: Math.round(middle) }),
      types: [...this.#types].toSorted(),
      hasCursor: this.#hasCursor,
    }
  }

  /** The first results are representative; inspecting all would parse results that are only passed through. */
  #look(result: Payload): void {
    const { content, structuredContent } = result.fields
    for (const block of Array.isArray(content) ? content : []) {
      const type = isObject(block) ? typeOf(block) : undefined
      if (type !== undefined && this.#types.size < MAX_MEDIA_TYPES) this.#types.add(type)
    }
    if (!isObject(structuredContent)) return
    this.#types.add('application/json')
    if (mentionsPages(structuredContent)) this.#hasCursor = true
  }
}

function typeOf(block: Readonly<Record<string, unknown>>): string | undefined {
  const { type, mimeType, resource } = block
  const mediaType = mimeType ?? (isObject(resource) ? resource.mimeType : undefined)
  if (typeof mediaType === 'string' && mediaType.length <= 100) return mediaType
  return type === 'text' ? 'text/plain' : undefined
}
