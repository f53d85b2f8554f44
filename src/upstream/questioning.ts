import type { UpstreamCall } from '../bridge/park.ts'
import type { InputResponse, InputRequest } from '../core/call.ts'
import { Payload } from '../core/payload.ts'
import type { JsonRpcRequest } from '../wire/jsonrpc.ts'
import type { JsonRpcPeer } from '../wire/peer.ts'
import type { RequestCorrelator } from './attribution.ts'
import type { FirstRoots } from './first-roots.ts'

interface Options {
  readonly peer: JsonRpcPeer
  readonly attribution: RequestCorrelator
  /** Who listens outside any call. */
  listeners(): readonly UpstreamCall[]
  /** Roots the configuration lists. */
  readonly roots: readonly string[] | undefined
  /** Those the first calls wait for, where the client has them. */
  firstRoots(): FirstRoots | undefined
}

/** Brings the questions of a server with a handshake to its callers, and their answers back. */
export class ServerRequestHandler {
  readonly #options: Options
  readonly #open = new Map<string, AbortController>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Whether a question waits for its answer. */
  get isOpen(): boolean {
    return this.#open.size > 0
  }

  /** Takes a request of the server; `about` is the call whose stream carried it. */
  async take(request: JsonRpcRequest, about: number | undefined): Promise<void> {
    const { peer, roots } = this.#options
    if (request.method === 'roots/list' && roots) {
      return peer.respond(request.id, Payload.of({ roots: roots.map((uri) => ({ uri })) }))
    }
    const controller = new AbortController()
    this.#open.set(request.id, controller)
    const firstRoots = request.method === 'roots/list' ? this.#options.firstRoots() : undefined
    let isExpired = false
    const expire = (): void => {
      isExpired = true
      controller.abort()
    }
    firstRoots?.asked(expire)
    try {
      const question = { method: request.method, params: request.params }
      const answer = await this.#ask(question, about, controller)
      // What the server took back itself wants no answer.
      if (controller.signal.aborted && !isExpired) return
      if (!answer) await peer.respondError(request.id, nobody(request))
      else if ('result' in answer) await peer.respond(request.id, answer.result)
      else await peer.respondError(request.id, answer.error)
    } finally {
      firstRoots?.answered(expire)
      this.#open.delete(request.id)
    }
  }

  /** The server takes a question back. */
  withdraw(id: string): void {
    this.#open.get(id)?.abort()
  }

  close(): void {
    for (const controller of this.#open.values()) controller.abort()
  }

  /** Asks the caller it is for; where one that was only guessed ends first, the next. Nothing where there is none. */
  async #ask(
    question: InputRequest,
    about: number | undefined,
    controller: AbortController,
  ): Promise<InputResponse | undefined> {
    const found = await this.#options.attribution.find(question, about, this.#options.listeners())
    if (!found) return undefined
    const { active, isAmbiguous: isGuess } = found
    // While its caller thinks, another call may be at work.
    active.pause()
    const answer = await active.working.requestInput(question, {
      withdrawn: controller.signal,
      isAmbiguous: isGuess,
    })
    await active.resume()
    // The call it was for has ended, so the server does not wait for an answer.
    if (!answer && !isGuess) controller.abort()
    return answer || controller.signal.aborted ? answer : this.#ask(question, about, controller)
  }
}

function nobody({ method }: JsonRpcRequest): Payload {
  return Payload.of({
    code: -32601,
    message: `Method not found: ${method}`,
    data: { reason: 'no caller to ask' },
  })
}
