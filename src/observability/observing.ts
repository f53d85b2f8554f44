/** The observers of a gateway, following its settings over reloads. */
import type { ApprovalStep, OrderStep, Refusal, SignInStep } from '../core/audit-step.ts'
import type { Call, Target } from '../core/call.ts'
import { type GatewayError, messageOf } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import type { ObserveSettings, Settings } from '../core/settings.ts'
import { Audit } from './audit/audit.ts'
import type { Anchors } from './audit/anchor.ts'
import { isAuthFailure, isRateLimit } from './ending.ts'
import type { OpenLog } from './log.ts'
import { Metrics, type ObservedGateway } from './metrics.ts'
import type { CallObserver, Observers } from './observe.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { type MetricsExport, openMetricsExport } from './metrics-export.ts'
import type { Way } from './operations.ts'
import { openTracing, type Tracing } from './tracing.ts'

/** The gateway that is observed. */
interface Observed extends ObservedGateway {
  readonly log: Log | OpenLog
  isListed(call: Call, target: Target): boolean
  /** The store of audit log heads, in addition to the files; undefined for a store in memory. */
  anchors?(): Anchors | undefined
  /** Takes calls for the log of calls, where that is on. */
  readonly calls?: CallObserver
}

/** The observers of calls, by the current settings. */
export class Observing implements Observers {
  readonly log: Log
  readonly metrics: Metrics
  /** Knows the secrets of all settings that were applied: the one of the log, if that has one. */
  readonly redactor: Redactor
  readonly isListed: (call: Call, target: Target) => boolean
  way: Way = { transport: 'tcp' }
  audit: Audit | undefined
  tracing: Tracing | undefined
  readonly #calls: CallObserver | undefined
  readonly #configure: OpenLog['configure'] | undefined
  readonly #anchors: () => Anchors | undefined
  #settings: ObserveSettings | undefined
  #opening: Promise<void> | undefined
  #exportOpening: Promise<MetricsExport | undefined> | undefined
  #isServing = false
  #hasMetrics = true

  constructor({ log, isListed, anchors = () => undefined, calls, ...gateway }: Observed) {
    this.#calls = calls
    this.log = log
    this.isListed = isListed
    this.#anchors = anchors
    this.#configure = 'configure' in log ? log.configure : undefined
    this.redactor = 'redactor' in log ? log.redactor : new Redactor()
    this.metrics = new Metrics(gateway)
  }

  get isQuiet(): boolean {
    return !this.#hasMetrics && !this.audit && !this.calls && !this.tracing && this.log.isInfo === false
  }

  /** Only calls of clients are logged, not those of commands. */
  get calls(): CallObserver | undefined {
    return this.#isServing && this.#settings?.calls ? this.#calls : undefined
  }

  get isTraced(): boolean {
    return this.#settings?.traces !== undefined
  }

  /** Resolves once the exports of spans and metrics are ready, where they are enabled. */
  get opened(): Promise<void> {
    return Promise.all([this.#opening, this.#exportOpening]).then(() => undefined)
  }

  /** Applies settings. @throws the system error if the audit log cannot be opened */
  apply(settings: Settings): void {
    const { observe } = settings
    if (this.#isServing) this.#applyAudit(observe)
    const before = this.#settings
    this.#settings = observe
    this.#hasMetrics = observe.metrics || observe.metricsExport !== undefined
    this.metrics.mcp.isOn = this.#hasMetrics
    this.redactor.learn(secretsOf(settings))
    this.#configure?.({ level: observe.logLevel })
    if (textOf(before?.traces) !== textOf(observe.traces)) this.#applyTraces(observe)
    if (textOf(before?.metricsExport) !== textOf(observe.metricsExport)) this.#applyExport(observe)
  }

  /** Called before clients are served on a transport. @throws the system error if the audit log cannot be opened */
  serve(way: Way): void {
    this.way = way
    this.#isServing = true
    if (this.#settings) this.#applyAudit(this.#settings)
  }

  /** Records a rejected request. */
  readonly refused = (refusal: Refusal): void => {
    const { requestId, error, request, address } = refusal
    const { code } = error
    // Refused requests are reported by the component that refuses them.
    if (isAuthFailure(code)) this.metrics.refused(reasonOf(error))
    else this.log.info('refused', { request_id: requestId, request, code, reason: error.message, address })
    if (isRateLimit(code)) this.metrics.rateLimited('')
    this.audit?.refused(refusal)
  }

  /** Records a step of a sign-in to a server. */
  readonly signedIn = (step: SignInStep): void => this.audit?.signedIn(step)

  /** Records the decision of a person on a call. */
  readonly decided = (step: ApprovalStep): void => {
    const { approval, by, via, verdict, upstream, tool } = step
    this.log.info('approval.decided', { approval, by, via, verdict, upstream, tool })
    this.audit?.decided(step)
  }

  /** Records what a person orders on a page or by a tool of the gateway. */
  readonly ordered = (step: OrderStep): void => {
    const { order, by, via, upstream, transaction, operation, code } = step
    this.log.info('operator.ordered', { order, by, via, upstream, transaction, operation, code })
    this.audit?.ordered(step)
  }

  /** The content of `/metrics`; undefined if it is off. */
  async page(): Promise<{ readonly text: string; readonly type: string } | undefined> {
    if (this.#settings?.metrics === false) return undefined
    return this.metrics.page()
  }

  async close(): Promise<void> {
    await this.opened
    const exported = await this.#exportOpening
    await Promise.all([this.audit?.close(), this.tracing?.close(), exported?.close()])
  }

  #applyAudit({ audit }: ObserveSettings): void {
    if (audit && this.audit?.configure(audit)) return
    const before = this.audit
    this.audit = audit && new Audit(audit, this.log, this.#anchors())
    if (before) background(before.close(), this.log)
  }

  #applyExport({ metricsExport }: ObserveSettings): void {
    const before = this.#exportOpening
    if (before)
      background(
        before.then((exported) => exported?.close()),
        this.log,
      )
    this.#exportOpening =
      metricsExport &&
      openMetricsExport(metricsExport, () => this.metrics.mcp.all, this.log).catch((error: unknown) => {
        this.log.error('metrics.failed', { reason: messageOf(error) })
        return undefined
      })
  }

  #applyTraces({ traces }: ObserveSettings): void {
    const before = this.tracing
    this.tracing = undefined
    if (before) background(before.close(), this.log)
    this.#opening = traces && this.#open(traces)
  }

  async #open(traces: NonNullable<ObserveSettings['traces']>): Promise<void> {
    try {
      const { log, redactor } = this
      const tracing = await openTracing(traces, { log, redacted: (text) => redactor.text(text) })
      // The settings may have changed in the meantime.
      if (this.#settings?.traces === traces) this.tracing = tracing
      else await tracing.close()
    } catch (error) {
      this.log.error('traces.failed', { reason: messageOf(error) })
    }
  }
}

/** The reason of a rejection, from a limited set of labels. */
function reasonOf({ code, extra: { reason } }: GatewayError): string {
  return reason !== undefined && /^[a-z_]{1,32}$/.test(reason) ? reason : code.toLowerCase()
}

/** A text that is equal for equal settings, including secrets. */
function textOf(settings: unknown): string {
  return JSON.stringify([settings, secretsOf(settings)])
}
