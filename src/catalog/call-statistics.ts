/**
 * Samples calls for descriptions: how long tools take and what they return. Off until the first description.
 */
import type { Outcome, Middleware, Target } from '../core/call.ts'
import type { Descriptor, ToolStatistics } from '../core/descriptor.ts'
import { isObject } from '../core/json/json.ts'
import type { Payload } from '../core/payload.ts'

/** How many of the last calls looked at tell how long a tool takes, and from how many on they do. */
const MAX_SAMPLES = 200
const MIN_SAMPLES = 5
/** After so many, one in this many is looked at: no multiple of a rhythm calls often have. */
const SAMPLE_INTERVAL = 7
/** How many media types of a tool are remembered, and how many tools. */
const MAX_MEDIA_TYPES = 20
const MAX_TOOLS = 10_000

/** What is seen of calls as they go to their servers. */
interface CallStatistics {
  /** Looks at the calls of a tool of a server. */
  middleware(target: Target): Middleware | undefined
  of(entry: Descriptor): ToolStatistics | undefined
}

/** Watches the calls of tools, for those who describe them. */
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
        const start = performance.now()
        return next(call).then((outcome) => {
          // Only what a server answered to is one of its tools.
          seen ??= sighting(upstream, name)
          seen.note(outcome, performance.now() - start)
          return outcome
        })
      }
    },
    of: ({ upstream, name }) => tools.get(`${upstream} ${name}`)?.record,
  }
}

/** What was seen of one tool. */
class ToolSamples {
  #hasCursor = false
  #calls = 0
  readonly #durations: number[] = []
  readonly #types = new Set<string>()

  note(outcome: Outcome, duration: number): void {
    if (outcome.kind === 'input_required') return
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

  /** The first results say what results are like; looking at each would read those that are only passed on. */
  #look(result: Payload): void {
    const { content, structuredContent } = result.fields
    for (const block of Array.isArray(content) ? content : []) {
      const type = isObject(block) ? typeOf(block) : undefined
      if (type !== undefined && this.#types.size < MAX_MEDIA_TYPES) this.#types.add(type)
    }
    if (!isObject(structuredContent)) return
    this.#types.add('application/json')
    if (
      Object.keys(structuredContent).some((key) => /^(?:next_?)?cursor$|^next_?page(?:_?token)?$/i.test(key))
    )
      this.#hasCursor = true
  }
}

function typeOf(block: Readonly<Record<string, unknown>>): string | undefined {
  const { type, mimeType, resource } = block
  const told = mimeType ?? (isObject(resource) ? resource.mimeType : undefined)
  if (typeof told === 'string' && told.length <= 100) return told
  return type === 'text' ? 'text/plain' : undefined
}
