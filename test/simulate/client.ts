/** How simulated clients reach gateways: requests that may get lost on either way, and replies that are read back. */
import { NS } from '../../src/core/identity.ts'
import { isObject, readJson } from '../../src/core/json/json.ts'
import { type Fields, Payload } from '../../src/core/payload.ts'
import { ERROR_KEY, metaKeys } from '../../src/protocol/meta-keys.ts'
import { latestModern } from '../../src/core/revisions.ts'
import type { Reply } from './history.ts'
import { OddNumbers } from './odd-numbers.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'
import type { Front } from './simulated-gateway.ts'

/** A request to a gateway. */
export interface Request {
  readonly method: string
  readonly params: Payload
  /** The server in the URL; undefined for the URL of all servers. */
  readonly upstream?: string
  /** How long the client waits, in milliseconds. */
  readonly patience: number
  /** Whether the client goes away when it waits no longer, so that the gateway notices. */
  readonly hangsUp: boolean
  /** What the client declares that it can do. */
  readonly capabilities?: Fields
}

interface Surroundings {
  readonly scheduler: Scheduler
}

/** One client: a process with a caller's credentials. */
export class Client {
  readonly process: SimulatedProcess
  readonly principal: string
  readonly #surroundings: Surroundings
  readonly #ids = new OddNumbers()

  constructor(process: SimulatedProcess, principal: string, surroundings: Surroundings) {
    this.process = process
    this.principal = principal
    this.#surroundings = surroundings
  }

  /** Sends a request to a gateway. Resolves with `info` if no response came. */
  send(front: Front, request: Request): Promise<Reply> {
    const { scheduler } = this.#surroundings
    const { promise, resolve } = Promise.withResolvers<Reply>()
    const controller = new AbortController()
    const id = this.#ids.nextId()
    const text = this.#encode(id, request)
    const give = (reply: Reply): void => {
      scheduler.cancel(late)
      resolve(reply)
    }
    const late = scheduler.after(this.process, request.patience, 'patience', () => {
      if (request.hangsUp) front.hangUp(this.process, controller)
      give({ type: 'info', code: 'TIMEOUT' })
    })
    const { principal } = this
    const { upstream } = request
    const respond = (response: string | undefined): void => give(readReply(response, id))
    front.deliver(this.process, { text, principal, upstream, controller, respond })
    return promise
  }

  /** Waits. */
  pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      this.#surroundings.scheduler.after(this.process, milliseconds, 'pause', resolve)
    })
  }

  #encode(id: string, { method, params, capabilities = {} }: Request): string {
    const whole = params.withMeta({
      [metaKeys.version]: latestModern.name,
      [metaKeys.clientInfo]: { name: this.process.name, version: '1.0.0' },
      [metaKeys.capabilities]: capabilities,
    })
    return Payload.of({ jsonrpc: '2.0', method }).with({ id: Payload.text(id), params: whole }).text
  }
}

/** The code of a response to another request. */
export const OTHER_ID = 'OTHER_ID'

/** The codes of failures whose call may still have an effect, or whose outcome a retry finds out. */
const uncertain: ReadonlySet<unknown> = new Set([
  'OUTCOME_UNKNOWN',
  'IDEMPOTENCY_IN_PROGRESS',
  'OPERATION_TIMEOUT',
  'CANCELLED',
  'SERVER_UNAVAILABLE',
  'UPSTREAM_ERROR',
])

/** Reads the response to the request with this id; without a text, the connection ended before. */
export function readReply(text: string | undefined, id: string): Reply {
  if (text === undefined) return { type: 'info', code: 'DISCONNECTED' }
  const message = readJson(text)
  if (!isObject(message)) return { type: 'info', code: 'UNREADABLE' }
  const whole = Payload.text(text, message)
  if (whole.at('id')?.text !== id) return { type: 'fail', code: OTHER_ID }
  const { error } = message
  if (isObject(error)) {
    const data = isObject(error['data']) ? error['data'] : {}
    return failure(data['code'] ?? error['code'], data)
  }
  const result = whole.at('result') ?? Payload.of({})
  const { fields } = result
  if (!Array.isArray(fields['content'])) return { type: 'ok', result }
  const problem = result.meta(ERROR_KEY)
  const facts = {
    text: JSON.stringify(fields['content']),
    wasReplay: result.meta('was_replay') === true,
    isUnrecorded: result.meta(`${NS}/unrecorded`) === true,
  }
  if (fields['isError'] !== true) return { type: 'ok', ...facts, said: saidIn(result) }
  // An error of the server is an outcome; one of the gateway is none.
  const code = isObject(problem) ? problem['code'] : undefined
  const isOfServer = code === undefined || code === 'UPSTREAM_ERROR' || code === 'TOOL_ERROR'
  return isOfServer ? { type: 'ok', ...facts, code: 'TOOL_ERROR' } : { ...failure(code, {}), ...facts }
}

/** The structured content, and the JSON in texts. */
function saidIn(result: Payload): NonNullable<Reply['said']> {
  const texts = (result.at('content')?.items ?? []).map(({ fields }) => String(fields['text']))
  const inTexts = texts.filter((text) => text.startsWith('{')).map((text) => Payload.text(text))
  return [result.at('structuredContent') ?? [], ...inTexts].flat().map(membersOf)
}

function membersOf(object: Payload): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.keys(object.fields).map((key) => [key, object.at(key)?.text ?? '']))
}

function failure(code: unknown, data: Fields): Reply {
  return {
    type: uncertain.has(code) ? 'info' : 'fail',
    code: String(code),
    ...(data['was_replay'] === true && { wasReplay: true }),
  }
}
