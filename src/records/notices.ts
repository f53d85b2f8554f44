/**
 * Notices in the store: that people are told by a channel that a call waits for approval. Each is a queue of an outbox, with one
 * message, and with another one if they are also told how the call was decided. Field names are persisted and do not change.
 *
 * Invariant: a notice is kept until its approval expires, also after it was sent, so that it is not made again.
 */
import { world } from '../core/world.ts'
import type { Risk } from '../core/descriptor.ts'
import { asJson, Collection, type RecordKind } from '../durable/collection.ts'
import type { QueueProgress } from '../durable/queue.ts'
import type { Store } from '../store/store.ts'
import type { Approval } from './approvals.ts'

/** The positions in the queue of a notice: before its first message, after it, and after the one about the decision. */
export const UNSENT = '0'
export const TOLD = '1'
export const DECISION_TOLD = '2'

/** A notice. Times are milliseconds since 1970. */
export interface Notice extends QueueProgress {
  readonly id: string
  /** The id of the approval. */
  readonly approval: string
  /** The name of the channel. */
  readonly channel: string
  /** Others are told because nobody decided in time. */
  readonly isEscalated?: true
  /** Of the call. */
  readonly risk: Risk
  /** When the approval was requested, and until when it waits. */
  readonly requestedAt: number
  readonly expiresAt: number
  /** The first message was accepted. */
  readonly isTold?: true
  /** Which process sends it; it has no owner once that process has ended. */
  readonly owner?: string
}

/** How long a notice is kept after the approval expired, in milliseconds: so long a decision in the last moment is told. */
const RETENTION_MS = 60_000

/** The latest time that has a date (ECMA-262, time values), in milliseconds since 1970. */
const MAX_TIME = 8.64e15

const json = asJson<Notice>({
  string: ['id', 'approval', 'channel', 'risk', 'watermark'],
  number: ['requestedAt', 'expiresAt'],
  list: ['settled'],
})

const noticeKind: RecordKind<Notice> = {
  name: 'notice',
  prefix: 'notice/',
  encode: json.encode,
  decode: (text) => {
    const notice = json.decode(text)
    return notice && Math.abs(notice.requestedAt) <= MAX_TIME ? notice : undefined
  },
  ttlOf: ({ expiresAt }, now) => Math.max(1, expiresAt - now) + RETENTION_MS,
  // Those that send read all of them again and again.
  isReadOften: true,
}

/** The notices in a store that gateways share. Every method throws what the store throws, such as SERVER_UNAVAILABLE. */
export class Notices {
  readonly #notices: Collection<Notice>

  constructor(store: Store, now: () => number = world.now) {
    this.#notices = new Collection(store, noticeKind, now)
  }

  all(): Promise<readonly Notice[]> {
    return this.#notices.all()
  }

  /** Adds the notice of an approval for a channel; undefined if there is one already. */
  async add(
    { id: approval, risk, createdAt: requestedAt, expiresAt }: Approval,
    channel: string,
    isEscalated: boolean,
  ): Promise<Notice | undefined> {
    const notice: Notice = {
      id: noticeId(approval, channel),
      approval,
      channel,
      ...(isEscalated && { isEscalated }),
      risk,
      requestedAt,
      expiresAt,
      watermark: UNSENT,
      settled: [],
    }
    const existing = await this.#notices.insert(notice.id, notice)
    return existing ? undefined : notice
  }

  /** Makes a process the one that sends a notice, if it still has the owner that was read; resolves with the notice if it is. */
  async claim({ id, owner: found }: Notice, owner: string): Promise<Notice | undefined> {
    const notice = await this.#notices.update(id, (before) =>
      before && before.owner !== owner && before.owner === found ? { ...before, owner } : 'keep',
    )
    return notice?.owner === owner ? notice : undefined
  }

  /** Records how far the owner of a notice got; false if it is there no more, or belongs to another process. */
  async advance(
    id: string,
    owner: string,
    progress: QueueProgress & Pick<Notice, 'isTold'>,
  ): Promise<boolean> {
    const notice = await this.#notices.update(id, (before) =>
      before && before.owner === owner ? { ...before, ...progress } : 'keep',
    )
    return notice?.owner === owner
  }

  remove(id: string): Promise<boolean> {
    return this.#notices.remove(id)
  }
}

/** The id of the notice of an approval for a channel. */
export function noticeId(approval: string, channel: string): string {
  return `${approval}.${channel}`
}
