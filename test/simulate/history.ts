/** What happened in a simulation: what clients asked and were answered, what servers did, and what failed. */
import { createHash } from 'node:crypto'
import type { Payload } from '../../src/core/payload.ts'

/** What a client wants. Every operation has arguments of its own, by which its effects are found. */
export interface Operation {
  /** Unique in the simulation; an argument of the call, as JSON: a number or a string of digits (`OddNumbers`). */
  readonly order: string
  /** Another argument, likewise. */
  readonly amount: string
  readonly principal: string
  readonly server: string
  readonly tool: string
  readonly key?: string
  readonly transaction?: string
  /** Whether its tool may do its work more than once without a difference. */
  readonly isIdempotent: boolean
}

/** The end of one attempt: Jepsen's words. `info` is an attempt whose end its client did not learn. */
export interface Reply {
  readonly type: 'ok' | 'fail' | 'info'
  /** The code of the error; for `ok` of a tool that failed, `TOOL_ERROR`. */
  readonly code?: string
  /** The content of a result. */
  readonly text?: string
  /** What a tool says that it did, each time that its result says so: the JSON texts of its members. */
  readonly said?: readonly Readonly<Record<string, string>>[]
  /** The result of another method. */
  readonly result?: Payload
  readonly wasReplay?: boolean
  /** The result is marked: the gateway could not record the call. */
  readonly isUnrecorded?: boolean
}

/** An entry of a history without its place in it. */
export type Happening =
  | {
      readonly kind: 'invoke'
      readonly attempt: number
      readonly operation: Operation
      readonly gateway: string
      /** How long its key is to be remembered, in milliseconds, if the client sets it. */
      readonly ttl?: number
    }
  | ({ readonly kind: 'reply'; readonly attempt: number; readonly operation: Operation } & Reply)
  /** The server did something. `lie`: what it answers is not what it did. */
  | {
      readonly kind: 'effect'
      readonly server: string
      readonly tool: string
      readonly id: string
      readonly order: string
      readonly amount: string
      readonly lie?: 'answered without doing' | 'did and failed'
      /** The id of the gateway's process that asked for it. */
      readonly by: number
    }
  /** The gateway itself called a tool: to undo something, or to verify whether it was done. */
  | {
      readonly kind: 'request'
      readonly server: string
      readonly tool: string
      readonly order: string
      readonly id?: string
    }
  /** A client received the event of a call. */
  | {
      readonly kind: 'event'
      readonly receiver: string
      readonly server: string
      readonly tool: string
      readonly order: string
      readonly amount: string
    }
  /** A thing was undone. */
  | { readonly kind: 'undone'; readonly server: string; readonly id: string; readonly order: string }
  | {
      readonly kind: 'transaction'
      readonly transaction: string
      readonly principal: string
      readonly verb: 'begin' | 'commit' | 'rollback' | 'status'
      readonly attempt: number
      readonly reply?: Reply
    }
  | {
      readonly kind: 'approval'
      readonly order: string
      readonly verdict: 'approved' | 'denied'
      /** The question that was answered. */
      readonly question: string
    }
  /** Until when it lasts, in milliseconds, if it does. */
  | { readonly kind: 'fault'; readonly what: string; readonly process: string; readonly until?: number }
  /** A client of an older revision has a session, or ends it. */
  | { readonly kind: 'session'; readonly session: string; readonly did: 'opened' | 'ended' }
  /** What became of a request in a session, begun at a time: `status` is that of HTTP, absent if no response came. */
  | {
      readonly kind: 'exchange'
      readonly session: string
      readonly began: number
      readonly status?: number
      readonly code?: string
    }
  /** An attempt is of a session. */
  | { readonly kind: 'within'; readonly session: string; readonly attempt: number; readonly order: string }
  /** A gateway's process begins to handle an attempt. */
  | { readonly kind: 'handled'; readonly attempt: number; readonly by: number }
  /** The record of a session names a process. */
  | { readonly kind: 'owned'; readonly record: string; readonly by: number; readonly generation: number }
  /** A gateway requests something of the client of a session. */
  | { readonly kind: 'asked'; readonly session: string; readonly id: string }
  /** A person accepts what a gateway asked about an operation; `question` identifies what was asked. */
  | { readonly kind: 'accepted'; readonly order: string; readonly question: string }
  /** What a client knows of a task. */
  | { readonly kind: 'task'; readonly task: string; readonly did: 'accepted' | 'ended' | 'missing' }
  /** An error that the gateway did not expect. */
  | { readonly kind: 'defect'; readonly what: string }

/** An entry of a history. */
export type Entry = Happening & { readonly step: number; readonly at: number }

/** The history of a simulation. */
export class History {
  readonly entries: Entry[] = []
  readonly #place: () => { readonly step: number; readonly at: number }
  readonly #onEntry: (entry: Entry) => void
  readonly #hash = createHash('sha256')

  /** `place` is the step and the virtual time now. */
  constructor(place: () => { readonly step: number; readonly at: number }, onEntry: (entry: Entry) => void) {
    this.#place = place
    this.#onEntry = onEntry
  }

  add(happening: Happening): void {
    const entry = { ...this.#place(), ...happening }
    this.entries.push(entry)
    this.#hash.update(JSON.stringify(entry))
    this.#onEntry(entry)
  }

  /** The SHA-256 of the entries so far, in hex. */
  digest(): string {
    return this.#hash.copy().digest('hex')
  }
}

/** What an entry is about: the same for all that concerns one operation or transaction. */
export function subjectsOf(entry: Entry): readonly string[] {
  switch (entry.kind) {
    case 'invoke':
    case 'reply': {
      const { order, key, principal, transaction } = entry.operation
      return [
        order,
        ...(key === undefined ? [] : [`${principal} ${key}`]),
        ...(transaction === undefined ? [] : [transaction]),
      ]
    }
    case 'effect':
    case 'request':
    case 'event':
    case 'undone':
    case 'approval':
    case 'accepted':
      return [entry.order]
    case 'within':
      return [entry.order, entry.session]
    case 'session':
    case 'exchange':
    case 'asked':
      return [entry.session]
    case 'handled':
      return [`attempt ${entry.attempt}`]
    case 'owned':
      return [entry.record]
    case 'task':
      return [entry.task]
    case 'transaction':
      return [entry.transaction]
    case 'fault':
    case 'defect':
      return []
  }
}
