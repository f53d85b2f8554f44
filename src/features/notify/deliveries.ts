/**
 * The notices that this process sends: an outbox whose queues are notices. Their source are the approvals in the store: what waits
 * and has no notice gets one, also if the process ended that requested the approval.
 *
 * Invariants: a notice is made once for an approval and a channel, by whichever gateway of the store is first, and is sent by one
 * of them at a time. Nothing is sent about an approval that was decided or expired meanwhile.
 */
import { asGatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import { ifAnswered } from '../../core/time/waiting.ts'
import type {
  Clock,
  Delivery,
  FailedAttempt,
  Limit,
  RetrySchedule,
  Sent,
  Settlement,
} from '../../durable/dispatcher.ts'
import { type Consumer, Outbox } from '../../durable/outbox.ts'
import { Queue, type QueueProgress } from '../../durable/queue.ts'
import { type Approval, Approvals } from '../../records/approvals.ts'
import { DECISION_TOLD, type Notice, noticeId, Notices, TOLD, UNSENT } from '../../records/notices.ts'
import type { Services } from '../feature.ts'
import type { Channel } from './channels.ts'
import { type Message, messageOf } from './message.ts'
import type { QuietHours, Urgency } from './quiet-hours.ts'

/**
 * When a message that was not accepted is sent again: after 5, 15, 45 and 135 s, and then every 5 minutes, of which up to half is
 * left out at random. It ends with the approval, and after a day in any case.
 */
const RETRIES: RetrySchedule = { firstMs: 5000, factor: 3, maxMs: 300_000, giveUpMs: 86_400_000 }
/** How many messages are on their way by one channel, and in all. */
const MAX_PER_CHANNEL = 4
const MAX_IN_FLIGHT = 16
/** How often the approvals are compared with the notices, and how often an approval is read whose decision is to be told, in milliseconds. */
const COMPARE_INTERVAL_MS = 30_000
const DECISION_INTERVAL_MS = 5000
/** How long the store may take for that, in milliseconds. */
const STORE_TIMEOUT_MS = 10_000

/** What is sent: that a call waits, or how it was decided. */
type Content = 'waits' | 'decided'

/** What notices are sent with. */
export interface NoticeSettings {
  readonly deps: Pick<Services, 'log' | 'store' | 'identity' | 'pages' | 'gateway' | 'metrics'>
  readonly channels: readonly Channel[]
  readonly quiet: QuietHours
  /** Absent if nothing is escalated. */
  readonly escalate?: { readonly afterMs: number; readonly to: readonly string[] }
  /** Whether people are told of the calls of a server. */
  isOn(upstream: string): boolean
  readonly clock: Clock
  random(): number
}

/** The notices that this process sends. */
export class NoticeDeliveries {
  readonly #options: NoticeSettings
  readonly #approvals: Approvals
  readonly #notices: Notices
  readonly #outbox: Outbox<Notice, Content, NoticeQueue>
  #comparedAt = Number.NEGATIVE_INFINITY
  #comparing: Promise<unknown> | undefined

  constructor(options: NoticeSettings) {
    const { deps, channels, clock, random } = options
    const now = (): number => clock.now()
    this.#options = options
    this.#approvals = new Approvals(deps.store, now)
    this.#notices = new Notices(deps.store, now)
    const channelOf = (name: string): Channel | undefined => channels.find((each) => each.name === name)
    this.#outbox = new Outbox<Notice, Content, NoticeQueue>({
      store: deps.store,
      ownerPrefix: 'notice-owner:',
      membership: deps.identity.membership,
      records: async () =>
        (await this.#notices.all()).filter((each) => isOpen(each, channelOf(each.channel))),
      claim: (notice, owner) => this.#notices.claim(notice, owner),
      schedule: RETRIES,
      clock,
      random,
      log: deps.log,
      isDeliverable: ({ channel }) => channelOf(channel) !== undefined,
      consume: (notice) => {
        const channel = channelOf(notice.channel)
        if (!channel) return undefined
        return new NoticeQueue(notice, channel, {
          ...options,
          approvals: this.#approvals,
          notices: this.#notices,
          wake: (id) => this.#outbox.wake(id),
        })
      },
      redeliveries: async () => [],
      onUndeliverable: () => undefined,
      onPollFailed: (reason) => deps.log.debug('notify.records_not_read', { reason }),
      onPolled: () => this.#compare(),
    })
  }

  /** Begins to send, and takes over what earlier processes left. */
  start(): Promise<void> {
    return this.#outbox.start()
  }

  /** Ends all attempts, and leaves what is not sent to other processes. */
  async close(): Promise<void> {
    if (this.#comparing) await ifAnswered(this.#comparing, STORE_TIMEOUT_MS)
    await this.#outbox.close()
  }

  /** Tells people of an approval that was just requested. @throws SERVER_UNAVAILABLE */
  async requested(id: string): Promise<void> {
    const approval = await this.#approvals.find(id)
    if (approval) await this.#tell(approval, new Set())
  }

  /** Makes the notices of an approval that are not there. */
  async #tell(approval: Approval, existing: ReadonlySet<string>): Promise<void> {
    const { channels, escalate, isOn } = this.#options
    if (approval.status !== 'pending' || approval.isByHost || !isOn(approval.upstream)) return
    for (const channel of channels) {
      if (existing.has(noticeId(approval.id, channel.name)) || !isFor(channel, approval)) continue
      const isEscalated = escalate?.to.includes(channel.name) === true
      const notice = await this.#notices.add(approval, channel.name, isEscalated)
      if (notice) await this.#outbox.added(notice)
    }
  }

  /** Makes the notices of approvals whose gateway ended before it did, or that were requested under another configuration. */
  #compare(): void {
    const now = this.#options.clock.now()
    if (this.#comparing || Math.abs(now - this.#comparedAt) < COMPARE_INTERVAL_MS) return
    this.#comparedAt = now
    const comparing = this.#compareAll().finally(() => {
      this.#comparing = undefined
    })
    this.#comparing = comparing
    background(comparing, this.#options.deps.log)
  }

  async #compareAll(): Promise<void> {
    const [pending, notices] = await Promise.all([this.#approvals.pending(), this.#notices.all()])
    const existing = new Set(notices.map(({ id }) => id))
    for (const approval of pending) await this.#tell(approval, existing)
  }
}

/** Whether something of a notice may still be sent. */
function isOpen({ watermark, isTold }: Notice, channel: Channel | undefined): boolean {
  if (watermark === UNSENT) return true
  return watermark === TOLD && isTold === true && channel?.settings.decided === true
}

/** Whether a channel is for the calls that an approval is about. */
function isFor({ settings: { only, servers } }: Channel, { upstream, risk, kind }: Approval): boolean {
  const conditions = only === undefined ? [] : [only].flat()
  if (conditions.includes('destructive') && risk !== 'destructive') return false
  if (conditions.includes('out_of_band') && kind !== 'out_of_band') return false
  return servers === undefined || [servers].flat().includes(upstream)
}

interface QueueServices extends NoticeSettings {
  readonly approvals: Approvals
  readonly notices: Notices
  wake(notice: string): void
}

/** A notice that this process sends. */
class NoticeQueue implements Consumer<Notice, Content> {
  readonly id: string
  readonly queue: Queue<Content>
  readonly #notice: Notice
  readonly #channel: Channel
  readonly #services: QueueServices
  readonly #urgency: Urgency
  /** From when on it may be sent, apart from quiet hours. */
  readonly #notBefore: number
  #isTold: boolean
  /** Whether the decision is to be told, and is there. */
  #isDecided = false
  #lookedAt = 0

  constructor(notice: Notice, channel: Channel, services: QueueServices) {
    this.id = notice.id
    this.queue = new Queue(notice)
    this.#notice = notice
    this.#channel = channel
    this.#services = services
    this.#urgency = {
      isDestructive: notice.risk === 'destructive',
      isEscalated: notice.isEscalated === true,
    }
    this.#notBefore = this.#urgency.isEscalated ? escalatedAt(notice, services) : 0
    this.#isTold = notice.isTold === true
  }

  /** Undefined before it is due, and in quiet hours. */
  get limits(): readonly Limit[] | undefined {
    const { clock, quiet } = this.#services
    const now = clock.now()
    if (now < this.#notBefore || quiet.holds(now, this.#urgency)) return undefined
    return [
      [`channel ${this.#channel.name}`, MAX_PER_CHANNEL],
      ['all', MAX_IN_FLIGHT],
    ]
  }

  async fill(): Promise<void> {
    const { clock } = this.#services
    if (this.queue.next === UNSENT) {
      this.queue.add(this.id, 'waits', { before: UNSENT, position: TOLD })
      this.queue.advance(TOLD, clock.now())
    } else if (this.queue.next === TOLD && this.#isDecided) {
      this.queue.add(`${this.id}.decided`, 'decided', { before: TOLD, position: DECISION_TOLD })
      this.queue.advance(DECISION_TOLD, clock.now())
    }
  }

  async send(content: Content, { id }: Delivery, signal: AbortSignal): Promise<Sent> {
    const approval = await this.#services.approvals.find(this.#notice.approval)
    if (!approval) return { kind: 'dropped', reason: 'expired' }
    if (content === 'waits' && approval.status !== 'pending') return { kind: 'dropped', reason: 'decided' }
    const message = this.#message(content, approval, id)
    return message ? this.#channel.send(message, signal) : { kind: 'dropped', reason: 'unreadable' }
  }

  /** Undefined if none can be made of the approval, which may be damaged, or of another version. */
  #message(content: Content, approval: Approval, id: string): Message | undefined {
    try {
      return this.#messageOf(content, approval, id)
    } catch (error) {
      const { message: reason } = asGatewayError(error)
      this.#services.deps.log.warn('notify.unreadable', { ...this.#fields, reason })
      return undefined
    }
  }

  #messageOf(content: Content, approval: Approval, id: string): Message {
    const { deps } = this.#services
    const { settings, markup } = this.#channel
    const type =
      content === 'decided'
        ? 'approval.decided'
        : this.#urgency.isEscalated
          ? 'approval.escalated'
          : 'approval.pending'
    const { url: link } = deps.pages.decisionChannels(approval)
    return messageOf({ id, type, approval, link }, settings, { markup, redactor: deps.gateway.redactor })
  }

  retried(_content: Content, { failure, attempts }: FailedAttempt): void {
    const { log, metrics } = this.#services.deps
    metrics.notified(this.#channel.name, 'retried')
    log.warn('notify.failed', { ...this.#fields, failure, attempts })
  }

  settled(content: Content, { attempts }: Delivery, settlement: Settlement): void {
    const { log, metrics } = this.#services.deps
    const outcome = settlement.kind === 'delivered' ? 'sent' : settlement.kind
    if (content === 'waits') this.#isTold = outcome === 'sent'
    metrics.notified(this.#channel.name, outcome)
    if (outcome === 'sent') return log.info('notify.sent', this.#fields)
    // What was decided before anything was sent is no failure.
    if ('reason' in settlement && attempts === 0) return
    const why = 'failure' in settlement ? settlement.failure : 'reason' in settlement ? settlement.reason : ''
    log.warn('notify.given_up', { ...this.#fields, outcome, failure: why })
  }

  get #fields(): Readonly<Record<string, unknown>> {
    const { approval } = this.#notice
    const { name: channel, kind } = this.#channel
    return { approval, channel, kind, ...(this.#urgency.isEscalated && { escalated: true }) }
  }

  /** What was given up is in the log: people cannot be told later. */
  async addLetter(): Promise<void> {}

  renewed(): void {}

  async maintain(now: number): Promise<void> {
    const isTelling = this.#isTold && this.#channel.settings.decided && this.queue.next === TOLD
    if (isTelling && !this.#isDecided) {
      if (Math.abs(now - this.#lookedAt) < DECISION_INTERVAL_MS) return
      this.#lookedAt = now
      const { approvals } = this.#services
      const approval = await ifAnswered(approvals.find(this.#notice.approval), STORE_TIMEOUT_MS)
      this.#isDecided =
        approval !== undefined && approval.decisions.length > 0 && approval.status !== 'pending'
    }
    // It may be due now.
    if (this.limits) this.#services.wake(this.id)
  }

  write(owner: string, progress: QueueProgress): Promise<boolean> {
    return this.#services.notices.advance(this.id, owner, {
      ...progress,
      ...(this.#isTold && { isTold: true }),
    })
  }

  remove(): Promise<unknown> {
    return this.#services.notices.remove(this.id)
  }
}

/** When others are told: a time after the first people were told, who may have been left alone in quiet hours until then. */
function escalatedAt(
  { requestedAt, risk }: Notice,
  { quiet, escalate }: Pick<NoticeSettings, 'quiet' | 'escalate'>,
): number {
  const first: Urgency = { isDestructive: risk === 'destructive', isEscalated: false }
  const isWoken = !quiet.holds(requestedAt, { ...first, isEscalated: true })
  const told = isWoken ? requestedAt : quiet.heldUntil(requestedAt, first)
  return told + (escalate?.afterMs ?? 0)
}
