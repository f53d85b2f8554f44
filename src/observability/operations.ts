/**
 * The metrics of the MCP semantic conventions of OpenTelemetry: durations of operations and sessions, of the gateway as a
 * server of its clients and as a client of its servers. `/metrics` and the OTLP exporter read the same counts.
 * https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
 */
import type { Call, Target } from '../core/call.ts'
import { asGatewayError, type GatewayError } from '../core/error.ts'
import { type ExchangeMeter, type SessionMeter, peerSlot, calledAsSlot } from '../core/exchange.ts'
import { oneLine } from '../core/text/escape.ts'
import { isProtocolMethod } from '../protocol/methods.ts'
import type { Ending } from './ending.ts'
import { type Duration, Durations, type LabelValue } from './histogram.ts'

/** The transport of a peer. */
export interface Way {
  readonly transport: 'tcp' | 'pipe'
  readonly address?: string
  readonly port?: number
  /** The version of HTTP, where it is known before a request. */
  readonly httpVersion?: string
}

/** The buckets that the conventions advise, in seconds. */
const SECONDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

const operationLabels = [
  'mcp.method.name',
  'error.type',
  'gen_ai.operation.name',
  'gen_ai.prompt.name',
  'gen_ai.tool.name',
  'mcp.protocol.version',
  'network.protocol.name',
  'network.protocol.version',
  'network.transport',
  'rpc.response.status_code',
  'gatehouse.upstream',
]
const sessionLabels = [
  'error.type',
  'mcp.protocol.version',
  'network.protocol.name',
  'network.transport',
  'gatehouse.upstream',
]
const serverLabels = ['server.address', 'server.port']

/** The value that stands for names beyond the limits, and for those that may be invented (conventions of OpenTelemetry). */
const OTHER = '_OTHER'
/** How many tools, or prompts, of one server are named. */
const MAX_NAMES = 500
/** How many JSON-RPC codes of one server are told apart: it chooses them. */
const MAX_CODES = 50
/** How many revisions are told apart: servers choose them. */
const MAX_REVISIONS = 20

/** Names that are known to exist, a limited number for each kind. */
export class KnownNames {
  readonly #names = new Map<string, Set<string>>()
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  has(kind: string, name: string): boolean {
    return this.#names.get(kind)?.has(name) === true
  }

  /** Adds a name. Returns whether it is within the limit. */
  learn(kind: string, name: string): boolean {
    const names = this.#names.get(kind) ?? new Set()
    this.#names.set(kind, names)
    if (!names.has(name) && names.size >= this.#limit) return false
    names.add(name)
    return true
  }
}

/** How an operation ended, in the attributes of the conventions; both are undefined for a success. */
export interface Status {
  /** `error.type` */
  readonly type?: string | undefined
  /** `rpc.response.status_code` */
  readonly code?: string | undefined
}

/** Codes that say that the request cannot be served: the server did not fail (conventions, `rpc.response.status_code`). */
const callerFaults: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32602, -32002])

const succeeded: Status = {}
const toolError: Status = { type: 'tool_error' }

/** The status of an operation that a client requested. */
export function servedStatus({ outcome, rpc }: Ending): Status {
  if (rpc === undefined) return outcome === 'tool_error' ? toolError : succeeded
  const code = String(rpc)
  return callerFaults.has(rpc) ? { code } : { code, type: code }
}

/** The status of an operation that was requested of a server. A failure without a response has no code. */
export function sentStatus(error: GatewayError | undefined, isToolError: boolean): Status {
  if (!error) return isToolError ? toolError : succeeded
  const given = error.extra.relayed?.fields.code
  if (typeof given !== 'number') return { type: error.code }
  return { code: String(given), type: String(given) }
}

/** A call of a client that has ended. */
interface Served {
  readonly call: Call
  /** What it reached; its name is that of the server. */
  readonly target: Target
  readonly ending: Ending
  readonly way: Way
  /** Whether its server lists the tool. */
  isListed(): boolean
}

type MakeDuration = (status: Status, revision: string, httpVersion: string | undefined) => Duration

/** The operations of one method, and of one tool or prompt if it names one. */
class Operations {
  readonly #make: MakeDuration
  readonly #known = new Map<string, Duration>()
  #last: Duration | undefined
  #status: Status = succeeded
  #revision = ''
  #httpVersion: string | undefined

  constructor(make: MakeDuration) {
    this.#make = make
  }

  observe(seconds: number, status: Status, revision: string, httpVersion: string | undefined): void {
    // Nearly every operation is like the one before.
    const isSame =
      this.#status.type === status.type &&
      this.#status.code === status.code &&
      this.#revision === revision &&
      this.#httpVersion === httpVersion
    if (!isSame || !this.#last) {
      const key = `${status.type} ${status.code} ${revision} ${httpVersion}`
      this.#last = this.#known.get(key) ?? this.#make(status, revision, httpVersion)
      if (this.#known.size < MAX_KNOWN) this.#known.set(key, this.#last)
      this.#status = status
      this.#revision = revision
      this.#httpVersion = httpVersion
    }
    this.#last.observe(seconds)
  }
}

/** How many kinds of endings of one operation are found without their labels. */
const MAX_KNOWN = 50

/** The four histograms. */
export class McpMetrics {
  /** Nothing is counted while it is false. */
  isOn = true
  readonly #isMethod: (name: string) => boolean
  readonly #names = new KnownNames(MAX_NAMES)
  readonly #codes = new KnownNames(MAX_CODES)
  readonly #revisions = new KnownNames(MAX_REVISIONS)
  readonly #served = histogram(
    'mcp_server_operation_duration_seconds',
    'MCP request or notification duration as observed on the receiver.',
    operationLabels,
  )
  readonly #sent = histogram(
    'mcp_client_operation_duration_seconds',
    'MCP request or notification duration as observed on the sender.',
    [...operationLabels, ...serverLabels],
  )
  readonly #sessions = histogram(
    'mcp_server_session_duration_seconds',
    'Duration of MCP sessions as observed on the MCP server.',
    sessionLabels,
  )
  readonly #upstreamSessions = histogram(
    'mcp_client_session_duration_seconds',
    'Duration of MCP sessions as observed on the MCP client.',
    [...sessionLabels, ...serverLabels],
  )
  readonly #operations = new Map<string, Operations>()
  readonly #ofTargets = new WeakMap<Target, Operations>()

  /** Unknown methods share one value. */
  constructor(isMethod: (name: string) => boolean) {
    this.#isMethod = isMethod
  }

  /** The names of the metrics in OpenTelemetry, with their counts. */
  get all(): ReadonlyMap<string, Durations> {
    return new Map([
      ['mcp.server.operation.duration', this.#served],
      ['mcp.client.operation.duration', this.#sent],
      ['mcp.server.session.duration', this.#sessions],
      ['mcp.client.session.duration', this.#upstreamSessions],
    ])
  }

  get text(): string {
    return [...this.all.values()].map(({ text }) => text).join('')
  }

  /** Counts a call of a client. */
  served({ call, target, ending, way: { transport }, isListed }: Served): void {
    const method = calledAsSlot.of(call) ?? call.method
    // Pages and other paths over HTTP are no operations of MCP, nor are calls that no client made.
    if (!this.isOn || method.includes(' ') || call.internal) return
    let operations = this.#ofTargets.get(target)
    if (!operations) {
      const { upstream, name } = target
      const isDone = ending.rpc === undefined && ending.outcome !== 'tool_error'
      const label = this.#nameOf(upstream ?? '', method, name, isDone || isListed)
      const key = `in ${method} ${upstream} ${transport} ${label}`
      operations = this.#operation(key, this.#served, { method, name: label, transport, upstream })
      // Calls of one target have the same object, in nearly all cases.
      if (label !== OTHER && method === target.method) this.#ofTargets.set(target, operations)
    }
    operations.observe(
      ending.ms / 1000,
      servedStatus(ending),
      call.client.revision,
      peerSlot.of(call)?.httpVersion,
    )
  }

  /** Counts what is sent to a server, and the sessions with it. */
  upstream(upstream: string, way: Way): ExchangeMeter {
    return this.#meter(way, upstream, this.#upstreamSessions)
  }

  /** Counts the sessions of clients on a transport, and what concerns only them. */
  sessions(way: Way): SessionMeter {
    const { transport } = way
    return {
      ...this.#meter(way, undefined, this.#sessions),
      answered: ({ method, seconds, error }, revision) => {
        if (!this.isOn) return
        const rpc = error === undefined ? undefined : asGatewayError(error).rpc
        const status = rpc === undefined ? succeeded : servedStatus({ outcome: '', rpc, ms: 0 })
        this.#operation(`own ${method} ${transport}`, this.#served, { method, transport }).observe(
          seconds,
          status,
          revision,
          way.httpVersion,
        )
      },
    }
  }

  #meter(way: Way, upstream: string | undefined, sessions: Durations): ExchangeMeter {
    const { transport, address, port } = way
    const known = new Map<string, Map<string | undefined, Operations>>()
    const find = (method: string, name: string | undefined, isNamed: boolean): Operations => {
      const found = known.get(method)?.get(name)
      if (found) return found
      const label = this.#nameOf(upstream ?? '', method, name, isNamed)
      const operation = { method, name: label, transport, upstream, address, port }
      const made = this.#operation(`out ${method} ${upstream} ${transport} ${label}`, this.#sent, operation)
      if (label !== OTHER && isProtocolMethod(method))
        known.set(
          method,
          (known.get(method) ?? new Map<string | undefined, Operations>()).set(label && name, made),
        )
      return made
    }
    return {
      sent: ({ method, name, seconds, result, error }, revision) => {
        if (!this.isOn) return
        const failure = error === undefined ? undefined : asGatewayError(error)
        const status = sentStatus(failure, result?.member('isError') === true)
        const operations = find(method, hasName(method) ? name : undefined, status.type === undefined)
        operations.observe(seconds, status, revision, way.httpVersion)
      },
      ended: (seconds, revision, error) => {
        if (!this.isOn) return
        const version = this.#revision(revision)
        sessions
          .with(error, version, protocol(transport), transport, upstream, address, port)
          .observe(seconds)
      },
    }
  }

  #operation(
    key: string,
    durations: Durations,
    operation: {
      readonly method: string
      readonly name?: string | undefined
      readonly upstream?: string | undefined
      readonly transport: Way['transport']
      readonly address?: string | undefined
      readonly port?: number | undefined
    },
  ): Operations {
    const found = this.#operations.get(key)
    if (found) return found
    const { name, upstream, transport, address, port } = operation
    const method =
      this.#isMethod(operation.method) || sentMethods.has(operation.method) ? operation.method : OTHER
    const made = new Operations((status, revision, httpVersion) =>
      durations.with(
        method,
        this.#code(upstream, status.type),
        method === 'tools/call' ? 'execute_tool' : undefined,
        method === 'prompts/get' ? name : undefined,
        method === 'tools/call' ? name : undefined,
        this.#revision(revision),
        protocol(transport),
        httpVersion,
        transport,
        this.#code(upstream, status.code),
        upstream,
        address,
        port,
      ),
    )
    if (this.#operations.size < MAX_OPERATIONS && method !== OTHER) this.#operations.set(key, made)
    return made
  }

  /** The name of a tool or prompt as a label. */
  #nameOf(
    upstream: string,
    method: string,
    name: string | undefined,
    isThere: boolean | (() => boolean),
  ): string | undefined {
    if (!hasName(method)) return undefined
    if (name === undefined) return OTHER
    const kind = `${method} ${upstream}`
    if (!this.#names.has(kind, name)) {
      const isNamed = typeof isThere === 'boolean' ? isThere : method === 'tools/call' && isThere()
      if (!isNamed || !this.#names.learn(kind, name)) return OTHER
    }
    return oneLine(name)
  }

  #code(upstream = '', code?: string): LabelValue {
    // Others are the gateway's own, which are few.
    const isNumber = code !== undefined && /^-?\d/.test(code)
    return !isNumber || this.#codes.learn(upstream, code) ? code : OTHER
  }

  #revision(revision: string): LabelValue {
    return this.#revisions.learn('', revision) ? revision : OTHER
  }
}

/** How many operations are found without their labels. */
const MAX_OPERATIONS = 10_000

/** Methods that the gateway itself sends, also those that clients do not send to servers. */
const sentMethods: ReadonlySet<string> = new Set([
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/roots/list_changed',
  'notifications/tasks/status',
  'sampling/createMessage',
  'elicitation/create',
  'roots/list',
])

/** Whether operations of a method are told apart by a name, which is a tool or prompt. */
function hasName(method: string): boolean {
  return method === 'tools/call' || method === 'prompts/get'
}

function protocol(transport: Way['transport']): 'http' | undefined {
  return transport === 'tcp' ? 'http' : undefined
}

function histogram(name: string, help: string, labels: readonly string[]): Durations {
  return new Durations({ name, help, labels, bounds: SECONDS })
}
