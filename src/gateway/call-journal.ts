/** Writes the calls of a gateway to the log of calls of its store, and counts them for plots. */
import type { Call, Target } from '../core/call.ts'
import { background, type Log } from '../core/log.ts'
import type { LoggedCall } from '../core/logged-call.ts'
import { maskedArguments, secretNames } from '../core/masked-arguments.ts'
import type { CallLogSettings, StoreSettings } from '../core/settings.ts'
import { OPERATOR_ADDRESS } from '../core/slot.ts'
import { shortened } from '../core/text/escape.ts'
import type { EndedCall } from '../observability/call-entry.ts'
import type { CallObserver } from '../observability/observe.ts'
import { type CallContent, CallLog, CallLogWriter } from '../records/call-log.ts'
import { CallRates } from '../records/call-rates.ts'
import type { Store } from '../store/store.ts'

/** The most that is kept of the arguments and of the result of one call, in characters. */
const MAX_ARGUMENTS_LENGTH = 32 * 1024
const MAX_RESULT_LENGTH = 64 * 1024

/** How many calls a store in memory keeps: it drops other values for new ones. */
const MAX_CALLS_IN_MEMORY = 10_000
const MAX_CONTENT_BYTES_IN_MEMORY = 8 * 1024 * 1024

interface Journaled {
  store(): Store
  /** Undefined where calls are not logged. */
  settings(): CallLogSettings | undefined
  storeKind(): StoreSettings['kind']
  /** Takes out of a value what the settings of its target mask. */
  masked(value: unknown, target: Target): unknown
  /** A text without the secrets of the gateway. */
  redacted(text: string): string
  readonly log: Log
}

/** The log of calls, and the rates of calls, of the present store. */
interface OpenLogs {
  readonly store: Store
  readonly settings: CallLogSettings
  readonly calls: CallLog
  readonly rates: CallRates
}

/** The calls of a gateway, as its owner sees them. */
export class CallJournal implements CallObserver {
  readonly #options: Journaled
  readonly #writer: CallLogWriter
  #open: OpenLogs | undefined

  constructor(options: Journaled) {
    this.#options = options
    this.#writer = new CallLogWriter(() => this.#logs?.calls, options.log)
  }

  /** The log of the present store; undefined where calls are not logged. */
  get calls(): CallLog | undefined {
    return this.#logs?.calls
  }

  /** How many calls there were, of all gateways of the present store; undefined where calls are not logged. */
  get rates(): CallRates | undefined {
    return this.#logs?.rates
  }

  /** Logs a call. */
  ended(ended: EndedCall, entry: LoggedCall): void {
    const logs = this.#logs
    if (!logs) return
    this.#writer.add(entry, this.#contentOf(ended, logs.settings.keep))
    const minute = logs.rates.count(entry)
    if (minute) background(logs.rates.append(minute), this.#options.log)
  }

  /** Writes what waits to be written. Never rejects. */
  async close(): Promise<void> {
    await this.#writer.close()
    const minute = this.#open?.rates.take()
    if (minute) await this.#open?.rates.append(minute).catch(() => undefined)
  }

  get #logs(): OpenLogs | undefined {
    const settings = this.#options.settings()
    if (!settings) return undefined
    const store = this.#options.store()
    const open = this.#open
    if (open?.store === store && open.settings === settings) return open
    const isInMemory = this.#options.storeKind() === 'memory'
    const { maxCalls, maxContentBytes } = settings
    const calls = new CallLog(store, {
      ...settings,
      maxCalls: isInMemory ? Math.min(maxCalls, MAX_CALLS_IN_MEMORY) : maxCalls,
      maxContentBytes: isInMemory ? Math.min(maxContentBytes, MAX_CONTENT_BYTES_IN_MEMORY) : maxContentBytes,
    })
    this.#open = { store, settings, calls, rates: open?.store === store ? open.rates : new CallRates(store) }
    return this.#open
  }

  #contentOf(
    { call, target, trail, outcome }: EndedCall,
    keep: CallLogSettings['keep'],
  ): CallContent | undefined {
    // What an owner's client searches for and reads is of others.
    if (keep === 'metadata' || target.upstream === OPERATOR_ADDRESS) return undefined
    const secrets = secretNames(trail.tool?.definition.inputSchema)
    const text = (value: unknown, max: number): string =>
      this.#text(maskedArguments(value, secrets), target, max)
    const given = argumentsOf(call)
    // What the gateway adds to `_meta` may be all it takes to read a task, or to confirm a call.
    const returned = outcome?.kind === 'result' && outcome.result.with({ _meta: undefined })
    return {
      ...(given !== undefined && { arguments: text(given, MAX_ARGUMENTS_LENGTH) }),
      ...(keep === 'results' && returned && { result: text(returned.value, MAX_RESULT_LENGTH) }),
    }
  }

  #text(value: unknown, target: Target, max: number): string {
    const { masked, redacted } = this.#options
    return shortened(redacted(JSON.stringify(masked(value, target)) ?? 'null'), max)
  }
}

/** What the caller wrote: the arguments of a tool or prompt, or the params of another method. */
function argumentsOf({ method, params }: Call): unknown {
  return method === 'tools/call' || method === 'prompts/get' ? params.fields.arguments : params.fields
}
