/**
 * The connection to a server that runs in another process: has each call answered there. It stands for the connection that the
 * other process has for the same callers, whose era, revision and context it tells with each answer.
 */
import type { Call, Client, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { beforeSendSlot, onSentSlot } from '../../core/exchange.ts'
import { Payload } from '../../core/payload.ts'
import { connectionSlot, type ServerContext } from '../../core/slot.ts'
import type { ListedTool } from '../../protocol/found-tool.ts'
import { ownCall } from '../../protocol/lift.ts'
import { responseLost } from '../failures.ts'
import type { UpstreamConnection } from '../protocol/connection.ts'
import type { UpstreamCall } from '../suspended-calls.ts'
import { ToolIndex } from '../tool-index.ts'
import type { StepTimeout } from '../transport/transport.ts'
import { encodeCall, readLine } from './messages.ts'
import { type ConnectionFacts, type LineEnd, moved, type There } from './placement.ts'

/** A connection to another process in place of the server. */
export class PlacedConnection implements UpstreamConnection {
  readonly isPlaced = true
  /** That it is closed says nothing about the server. */
  readonly hasLostSession = true
  readonly #there: There
  /** The call for which it was opened: the gateway's own requests are made for the same callers. */
  readonly #opener: Call
  readonly #stepTimeout: StepTimeout
  readonly #tools: ToolIndex
  readonly #closed = new AbortController()
  #facts: ConnectionFacts = { era: 'legacy', revision: '', canAsk: true }
  #context: ServerContext | undefined
  #discovered = Payload.of({})
  #active = 0

  private constructor(there: There, opener: Call, stepTimeout: StepTimeout) {
    this.#there = there
    this.#opener = opener
    this.#stepTimeout = stepTimeout
    this.#tools = new ToolIndex((params, client) => this.#own('tools/list', params, client))
    const close = (): void => this.#closed.abort()
    if (there.ended.aborted) close()
    else there.ended.addEventListener('abort', close, { once: true })
    there.onChanged(() => this.#tools.forget(), this.#closed.signal)
  }

  /** Connects to the server there, which starts it if it does not run. @throws what connecting to it throws */
  static async open(there: There, opener: Call, stepTimeout: StepTimeout): Promise<PlacedConnection> {
    const connection = new PlacedConnection(there, opener, stepTimeout)
    connection.#discovered = await connection.#own('server/discover', Payload.of({}))
    return connection
  }

  get discovered(): Payload {
    return this.#discovered
  }

  get era(): 'legacy' | 'modern' {
    return this.#facts.era
  }

  get revision(): string {
    return this.#facts.revision
  }

  get canAsk(): boolean {
    return this.#facts.canAsk
  }

  get context(): ServerContext | undefined {
    return this.#context
  }

  get isClosed(): boolean {
    return this.#closed.signal.aborted
  }

  get isBusy(): boolean {
    return this.#active > 0
  }

  tool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined> {
    return this.#tools.of(String(call.params.fields.name), this.#clientOf(call))
  }

  lacks(call: Call): boolean {
    return this.#tools.lacks(String(call.params.fields.name), this.#clientOf(call))
  }

  readonly open = async (working: UpstreamCall): Promise<Outcome> => {
    const { call } = working
    beforeSendSlot.of(call)?.(call)
    // The other process chooses the JSON-RPC id.
    onSentSlot.of(call)?.({ id: 0, revision: this.revision })
    const outcome = await this.#answer(working)
    if (call.method === 'tools/list' && outcome.kind === 'result')
      this.#tools.learn(outcome.result, call.params, this.#clientOf(call))
    return outcome
  }

  async close(): Promise<void> {
    this.#closed.abort()
  }

  /** An older server lists the same to all for whom a connection is. */
  #clientOf({ client }: Call): Client | undefined {
    return this.era === 'modern' ? client : undefined
  }

  /** A request of the gateway itself. */
  async #own(method: string, params: Payload, as?: Client): Promise<Payload> {
    const { principal, client } = this.#opener
    const { upstream } = this.#opener.target
    const own = connectionSlot.of(this.#opener)
    const call = ownCall({
      method,
      params,
      target: { method, ...(upstream !== undefined && { upstream }) },
      principal,
      client: as ?? client,
      signal: this.#stepTimeout(),
    })
    const connected = own ? connectionSlot.set(call, { ...own, onOpen: () => undefined }) : call
    const ignore = (): void => undefined
    const outcome = await this.#answer({ call: connected, signal: call.signal, notify: ignore })
    if (outcome.kind !== 'result')
      throw new GatewayError('UPSTREAM_ERROR', 'The server requested input where none is possible.')
    return outcome.result
  }

  /** Has a call answered. @throws what it fails with there; OUTCOME_UNKNOWN if the other process was lost */
  #answer(working: Pick<UpstreamCall, 'call' | 'signal' | 'notify'>): Promise<Outcome> {
    const { call, signal } = working
    if (signal.aborted) return Promise.reject(cancelled(signal))
    if (this.#there.ended.aborted) return Promise.reject(moved())
    this.#active++
    return new Promise<Outcome>((resolve, reject) => {
      const onAbort = (): void => reject(cancelled(signal))
      signal.addEventListener('abort', onAbort, { once: true })
      const receiver = {
        line: (text: string): void => {
          const line = readLine(text)
          if (line?.kind === 'facts') this.#learn(line.facts)
          else if (line?.kind === 'note') working.notify(line.note)
          else if (line?.kind === 'opened') connectionSlot.of(call)?.onOpen(line)
          else if (line?.kind === 'outcome') resolve(line.outcome)
          else if (line?.kind === 'error') reject(line.error)
        },
        ended: (how: LineEnd): void => {
          signal.removeEventListener('abort', onAbort)
          // Settled already, if there was an outcome.
          reject(failureOf(how))
        },
      }
      const { principal, requestId, method } = call
      const isLasting = method === 'subscriptions/listen'
      this.#there.send({ principal, requestId, text: encodeCall(call), isLasting }, receiver, signal)
    }).finally(() => this.#active--)
  }

  #learn(facts: ConnectionFacts): void {
    this.#facts = facts
    // The same object as long as it is the same context: those who wait for its end compare them.
    if (this.#context?.id !== facts.context?.id) this.#context = facts.context
  }
}

function cancelled({ reason }: AbortSignal): GatewayError {
  return reason instanceof GatewayError ? reason : new GatewayError('CANCELLED', 'The call was cancelled.')
}

function failureOf(how: LineEnd): GatewayError {
  if (how === 'moved' || how === 'unreached') return moved()
  return responseLost('The process of the gateway that runs the server was lost before the response arrived.')
}
