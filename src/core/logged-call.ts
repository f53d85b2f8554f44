/** What the log of calls keeps of a call, and what a call collects for it on its way. */
import { world } from './world.ts'
import type { Descriptor, Operation } from './descriptor.ts'

/**
 * How a call ended. A refusal by a rule is `denied`, which is no failure. `asked` calls wait for a person, or for input of
 * the client, and are made again.
 */
export const callEnds = ['ok', 'failed', 'denied', 'asked', 'task', 'dry_run'] as const
export type CallEnd = (typeof callEnds)[number]

/** Whose time a part of a call was: the server's, or that of people who decide. */
export type SpanKind = 'server' | 'people'

/** A part of a call: when it began after the call did, and how long it took, in milliseconds. */
export type Span = readonly [kind: SpanKind, start: number, ms: number]

/** A call in the log. Field names are persisted, in this order, and do not change; all texts are those of others. */
export interface LoggedCall {
  /** When it ended, in milliseconds since 1970. */
  readonly at: number
  /** How long it took, in milliseconds. */
  readonly ms: number
  readonly end: CallEnd
  /** Its request id. */
  readonly id: string
  /** The id of its caller. */
  readonly who: string
  /** The client, by its own account. */
  readonly client?: string | undefined
  readonly server?: string | undefined
  readonly method: string
  /** The tool or prompt as its server knows it, or the URI of the resource without its query. */
  readonly name?: string | undefined
  /** What kind of action the tool was judged to be. */
  readonly op?: Operation | undefined
  /** The code of the error or of the refusal. */
  readonly code?: string | undefined
  readonly reason?: string | undefined
  /** The sizes of its params and of its result as JSON, in bytes. */
  readonly in: number
  readonly out?: number | undefined
  /** The feature that ended it, if it did not reach its server. */
  readonly layer?: string | undefined
  readonly spans?: readonly Span[] | undefined
  /** The key of the action that `gatehouse undo` knows. */
  readonly action?: string | undefined
  /** The id of its trace (W3C Trace Context). */
  readonly trace?: string | undefined
  /** What features noted of it: the fields of its log line. */
  readonly facts?: Readonly<Record<string, unknown>> | undefined
}

/** What a call passed on its way: one for all copies of a call, until it ends. */
export class Trail {
  readonly #start = world.monotonic()
  readonly #spans: Span[] = []
  /** The innermost feature that the call has reached. */
  layer: string | undefined
  tool: Descriptor | undefined
  /** The key of the action that it is (`records/actions.ts`). */
  action: string | undefined

  /** Notes the action that the call is. */
  does(action: string): void {
    this.action = action
  }

  get spans(): readonly Span[] {
    return this.#spans
  }

  /** Begins a span; the returned function ends it. */
  begin(kind: SpanKind): () => void {
    const start = world.monotonic()
    return () => {
      if (this.#spans.length < MAX_SPANS)
        this.#spans.push([kind, rounded(start - this.#start), rounded(world.monotonic() - start)])
    }
  }

  get hasReachedServer(): boolean {
    return this.#spans.some(([kind]) => kind === 'server')
  }
}

/** Retries and pages make several spans. */
const MAX_SPANS = 20

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}
