/** The server of a proof, called through the gateway: alone, with an idempotency key, or as the step of a transaction. */
import { NS } from '../../core/identity.ts'
import type { Handler } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { firstWords } from '../../core/failure.ts'
import { asObject, isObject, readJson } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { resultValue } from '../../core/undo/expression.ts'
import { ownCall } from '../../protocol/lift.ts'
import { IDEMPOTENCY_KEY, metaKeys, TRANSACTION_ID } from '../../protocol/meta-keys.ts'
import type { TransportInterceptor, TransportReceiver } from '../../upstream/transport/transport.ts'
import { outsideOf, type Sandbox } from './sandbox.ts'

export type Json = Readonly<Record<string, unknown>>

/** A call of a tool. */
export interface ProofCall {
  readonly tool: string
  readonly arguments: Json
}

/** What came of a call. */
export interface ToolAnswer {
  /** Set if the tool did not do its work: the error of the server or of the gateway. */
  readonly failure?: string
  /** The code of the gateway's error. */
  readonly code?: string
  /** The result, without metadata. */
  readonly fields: Json
  /** The value that `$.result` stands for. */
  readonly value: unknown
}

export class ProofTarget {
  readonly #handle: Handler
  readonly #upstream: string

  constructor(handle: Handler, upstream: string) {
    this.#handle = handle
    this.#upstream = upstream
  }

  /** Calls a tool. Never throws. */
  call(
    { tool, arguments: args }: ProofCall,
    values: { readonly key?: string; readonly transaction?: string } = {},
  ): Promise<ToolAnswer> {
    const meta = {
      ...(values.key !== undefined && { [`${NS}/${IDEMPOTENCY_KEY}`]: values.key }),
      ...(values.transaction !== undefined && { [`${NS}/${TRANSACTION_ID}`]: values.transaction }),
    }
    return this.#request('tools/call', { name: tool, arguments: args, _meta: meta }, tool)
  }

  /** Begins a transaction. @throws Error */
  async begin(transaction: string): Promise<void> {
    const { failure } = await this.#request('transaction/begin', { transaction_id: transaction })
    if (failure !== undefined) throw new Error(`a transaction cannot begin: ${failure}`)
  }

  /** Undoes the steps of a transaction; resolves with why that was not possible, or undefined. */
  async rollback(transaction: string): Promise<string | undefined> {
    const { failure, fields } = await this.#request('transaction/rollback', { transaction_id: transaction })
    if (failure !== undefined) return failure
    if (fields.status === 'rolled_back') return undefined
    const steps: readonly unknown[] = Array.isArray(fields.steps_compensated) ? fields.steps_compensated : []
    const errors = steps.flatMap((step) =>
      isObject(step) && isObject(step.error) ? [String(step.error.message ?? step.error.code)] : [],
    )
    return errors[0] ?? `the transaction is ${String(fields.status)}`
  }

  /** What the server calls itself. */
  async info(): Promise<{ readonly name: string; readonly version: string }> {
    const { fields } = await this.#request('server/discover', {})
    const meta = asObject(fields._meta)
    const found = meta[metaKeys.serverInfo] ?? fields.serverInfo
    const { name, version } = asObject(found)
    return {
      name: typeof name === 'string' ? name : this.#upstream,
      version: typeof version === 'string' ? version : 'of unknown version',
    }
  }

  async #request(method: string, params: Json, name?: string): Promise<ToolAnswer> {
    const target = { upstream: this.#upstream, method, ...(name !== undefined && { name }) }
    const meta = asObject(params._meta)
    try {
      const outcome = await this.#handle(ownCall({ method, params: Payload.of(params), target, meta }))
      if (outcome.kind !== 'result') return refused('the server requests input, which a proof cannot give')
      const { fields } = outcome.result
      const value = resultValue(outcome.result)
      if (fields.isError !== true) return { fields, value }
      return { fields, value, failure: firstWords(outcome.result) }
    } catch (error) {
      const { code, message } = asGatewayError(error)
      return refused(message, code)
    }
  }
}

function refused(failure: string, code?: string): ToolAnswer {
  return { failure, fields: {}, value: undefined, ...(code !== undefined && { code }) }
}

/*
 * Watches the messages between the gateway and a server during a proof: refuses calls that would leave the sandbox,
 * counts the calls that pass, and drops the response of one. All calls pass here, also undo calls and reads that the
 * gateway makes.
 */

/** The most responses that wait to be dropped. */
const MAX_DROPPING = 100

export class Wire {
  readonly #sandbox: Sandbox
  readonly #renames: Readonly<Record<string, string>>
  readonly #counts = new Map<string, number>()
  readonly #dropping = new Set<number>()
  #toDrop: string | undefined

  constructor(sandbox: Sandbox, renames: Readonly<Record<string, string>>) {
    this.#sandbox = sandbox
    this.#renames = renames
  }

  /** How many calls of a tool reached the server. */
  count(tool: string): number {
    return this.#counts.get(tool) ?? 0
  }

  /** Drops the response of the next call of a tool: the gateway then knows only that it was sent. */
  dropNext(tool: string): void {
    this.#toDrop = tool
  }

  readonly intercept: TransportInterceptor = (open) => async (receiver) => {
    const transport = await open({
      ...receiver,
      receive: (text, about) => this.#receive(text, about, receiver),
    })
    const send = transport.send.bind(transport)
    transport.send = (message, exchange) => {
      const problem = this.#sent(message)
      if (problem === undefined) return send(message, exchange)
      return Promise.reject(new GatewayError('PERMISSION_DENIED', problem, { isUnsent: true }))
    }
    return transport
  }

  /** Notes a message that is sent; returns why it may not be. */
  #sent(text: string): string | undefined {
    const message = readJson(text)
    if (!isObject(message) || message.method !== 'tools/call' || !isObject(message.params)) return undefined
    const { name: sent, arguments: args } = message.params
    const name = this.#renames[String(sent)] ?? String(sent)
    const problem = outsideOf(this.#sandbox, asObject(args), { mustBind: false })
    if (problem !== undefined) return `${name} was not called: ${problem}`
    this.#counts.set(name, this.count(name) + 1)
    if (name !== this.#toDrop || typeof message.id !== 'number') return undefined
    this.#toDrop = undefined
    if (this.#dropping.size < MAX_DROPPING) this.#dropping.add(message.id)
    return undefined
  }

  #receive(text: string, about: number | undefined, receiver: TransportReceiver): void {
    const message = this.#dropping.size > 0 ? readJson(text) : undefined
    const id = isObject(message) && message.method === undefined ? message.id : undefined
    if (typeof id !== 'number' || !this.#dropping.delete(id)) return receiver.receive(text, about)
    receiver.reject(id, new GatewayError('SERVER_UNAVAILABLE', 'The response was dropped.'))
  }
}
