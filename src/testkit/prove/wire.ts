/**
 * Watches the messages between the gateway and a server during a proof: refuses calls that would leave the sandbox,
 * counts the calls that pass, and drops the response of one. All calls pass here, also undo calls and reads that the
 * gateway makes.
 */
import { GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import type { TransportInterceptor, TransportReceiver } from '../../upstream/transport/transport.ts'
import { outsideOf, type Sandbox } from './sandbox.ts'

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
    const problem = outsideOf(this.#sandbox, isObject(args) ? args : {}, { mustBind: false })
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
