/** How simulated clients reach gateways: requests that may get lost on either way, and replies that are read back. */
import { isObject, readJson } from '../../core/json/json.ts'
import { ERROR_KEY, metaKeys, NS } from '../../protocol/meta-keys.ts'
import { latestModern } from '../../protocol/revisions.ts'
import type { Faults } from './faults.ts'
import type { Reply } from './history.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'
import type { SimulatedGateway } from './simulated-gateway.ts'

type Fields = Readonly<Record<string, unknown>>

/** A request to a gateway. */
export interface Request {
  readonly method: string
  readonly params: Fields
  /** The server in the URL; undefined for the URL of all servers. */
  readonly upstream?: string
  /** How long the client waits, in milliseconds. */
  readonly patience: number
  /** Whether the client goes away when it waits no longer, so that the gateway notices. */
  readonly hangsUp: boolean
}

interface Surroundings {
  readonly scheduler: Scheduler
  readonly faults: Faults
}

/** One client: a process with a caller's credentials. */
export class Client {
  readonly process: SimulatedProcess
  readonly principal: string
  readonly #surroundings: Surroundings
  #lastId = 0

  constructor(process: SimulatedProcess, principal: string, surroundings: Surroundings) {
    this.process = process
    this.principal = principal
    this.#surroundings = surroundings
  }

  /** Sends a request to a gateway. Resolves with `info` if no response came. */
  send(gateway: SimulatedGateway, request: Request): Promise<Reply> {
    const { scheduler, faults } = this.#surroundings
    const { promise, resolve } = Promise.withResolvers<Reply>()
    const controller = new AbortController()
    const text = this.#encode(request)
    const give = (reply: Reply): void => {
      scheduler.cancel(late)
      resolve(reply)
    }
    const late = scheduler.after(this.process, request.patience, 'patience', () => {
      if (request.hangsUp) this.#hangUp(gateway, controller)
      give({ type: 'info', code: 'TIMEOUT' })
    })
    const respond = (response: string | undefined): void => {
      const back = faults.delay()
      if (back === undefined) return
      scheduler.after(this.process, back, 'reply', () => give(readReply(response)))
    }
    const there = faults.delay()
    const target = gateway.process
    if (!target) respond(undefined)
    else if (there !== undefined)
      scheduler.after(target, there, 'call', () =>
        gateway.receive({ text, principal: this.principal, upstream: request.upstream, controller, respond }),
      )
    return promise
  }

  /** Waits. */
  pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      this.#surroundings.scheduler.after(this.process, milliseconds, 'pause', resolve)
    })
  }

  #hangUp({ process }: SimulatedGateway, controller: AbortController): void {
    const { scheduler, faults } = this.#surroundings
    if (process) scheduler.after(process, faults.latency(), 'hang up', () => controller.abort())
  }

  #encode({ method, params }: Request): string {
    const meta = isObject(params['_meta']) ? params['_meta'] : {}
    const _meta = {
      [metaKeys.version]: latestModern.name,
      [metaKeys.clientInfo]: { name: this.process.name, version: '1.0.0' },
      [metaKeys.capabilities]: {},
      ...meta,
    }
    return JSON.stringify({ jsonrpc: '2.0', id: ++this.#lastId, method, params: { ...params, _meta } })
  }
}

/** The codes of failures whose call may still have an effect, or whose outcome a retry finds out. */
const uncertain: ReadonlySet<unknown> = new Set([
  'OUTCOME_UNKNOWN',
  'IDEMPOTENCY_IN_PROGRESS',
  'OPERATION_TIMEOUT',
  'CANCELLED',
  'SERVER_UNAVAILABLE',
  'UPSTREAM_ERROR',
])

function readReply(text: string | undefined): Reply {
  if (text === undefined) return { type: 'info', code: 'DISCONNECTED' }
  const message = readJson(text)
  if (!isObject(message)) return { type: 'info', code: 'UNREADABLE' }
  const { error, result } = message
  if (isObject(error)) {
    const data = isObject(error['data']) ? error['data'] : {}
    return failure(data['code'] ?? error['code'], data)
  }
  const fields = isObject(result) ? result : {}
  const meta = isObject(fields['_meta']) ? fields['_meta'] : {}
  const problem = meta[ERROR_KEY]
  const facts = {
    text: JSON.stringify(fields['content']),
    wasReplay: meta['was_replay'] === true,
    isUnrecorded: meta[`${NS}/unrecorded`] === true,
  }
  const structured = isObject(fields['structuredContent']) ? fields['structuredContent'] : fields
  if (fields['isError'] !== true) return { type: 'ok', ...facts, fields: structured }
  // An error of the server is an outcome; one of the gateway is none.
  const code = isObject(problem) ? problem['code'] : undefined
  const isOfServer = code === undefined || code === 'UPSTREAM_ERROR' || code === 'TOOL_ERROR'
  return isOfServer ? { type: 'ok', ...facts, code: 'TOOL_ERROR' } : { ...failure(code, {}), ...facts }
}

function failure(code: unknown, data: Fields): Reply {
  return {
    type: uncertain.has(code) ? 'info' : 'fail',
    code: String(code),
    ...(data['was_replay'] === true && { wasReplay: true }),
  }
}
