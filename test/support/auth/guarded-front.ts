import { createRequestStateCodec } from '../../../src/protocol/request-state.ts'
import { loadSettings } from '../../../src/config/load.ts'
import type { Call, Handler } from '../../../src/core/call.ts'
import { noProxy } from '../../../src/core/proxy.ts'
import { GatewayError } from '../../../src/core/error.ts'
import type { Log } from '../../../src/core/log.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { Refusal, PageSignIn } from '../../../src/core/audit-step.ts'
import type { Settings } from '../../../src/core/settings.ts'
import type { HttpRuntime } from '../../../src/downstream/http/edge.ts'
import { listenHttp } from '../../../src/downstream/http/server.ts'
import type { ReceiveHook } from '../../../src/core/http-paths.ts'
import { isObject, type Json } from '../server/json.ts'
import type { SignIns } from '../../../src/downstream/pages/sign-in.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

/** No person can sign in at a provider. */
export const noSignIns: SignIns = {
  start: () => Promise.reject(new Error('Sign-in is off here.')),
  finish: async () => 'nothing',
  document: () => undefined,
  site: () => undefined,
}

/** No person can sign in to the pages. */
export const noPageSignIn: PageSignIn = {
  link: () => undefined,
  begin: () => Promise.reject(new Error('Sign-in is off here.')),
  finish: () => Promise.reject(new Error('Sign-in is off here.')),
  identity: async () => undefined,
  end: async () => undefined,
}

/** The HTTP edge of a gateway without servers, whose tools tell who called. */
export interface GuardedFront {
  readonly origin: string
  /** Everything that was logged. */
  readonly log: readonly Json[]
  readonly refused: readonly Refusal[]
  /** Makes a request of 2026-07-28. */
  call(options?: Asking): Promise<Answer>
  /** Makes any request. */
  send(path: string, init?: RequestInit): Promise<Answer>
  /** Goes on with other settings. */
  configure(config: Json): void
  close(): Promise<void>
}

interface Asking {
  readonly token?: string | undefined
  readonly method?: string
  /** The name of the tool: they need the scope they are called, but `whoami`; `relay` and `narrowed` fail by themselves. */
  readonly tool?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly challenge: string | null
  readonly body: Json
}

/** Starts the edge with this configuration; `receiveHook` gets the webhooks. */
export async function guardedFront(config: Json, receiveHook?: ReceiveHook): Promise<GuardedFront> {
  let runtime = runtimeOf(read(config))
  const log: Json[] = []
  const refused: Refusal[] = []
  const store = new MemoryStore()
  const listener = await listenHttp({
    handle,
    runtime: () => runtime,
    signIns: noSignIns,
    pageSignIn: noPageSignIn,
    seal: createRequestStateCodec(Date.now),
    store: () => store,
    ready: async () => ({ isReady: true, checks: {} }),
    page: async () => 'a page',
    metrics: () => Promise.resolve({ text: 'calls 1\n', type: 'text/plain' }),
    onRefused: (refusal) => void refused.push(refusal),
    operator: { handle, isOn: () => runtime.listen.operatorMcp, admit: () => undefined },
    ...(receiveHook && { receiveHook }),
    log: recorder(log),
  })
  const send = async (path: string, init: RequestInit = {}): Promise<Answer> => {
    const response = await fetch(listener.url + path, init)
    const text = await response.text()
    const { status, headers } = response
    return { status, headers, challenge: headers.get('www-authenticate'), body: parsed(text) }
  }
  return {
    origin: listener.url,
    log,
    refused,
    send,
    call: ({ token, method = 'tools/call', tool = 'whoami', path = '/mcp', headers = {} } = {}) =>
      send(path, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': method,
          ...(method === 'tools/call' && { 'mcp-name': tool }),
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...headers,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: paramsOf(method, tool) }),
      }),
    configure: (next) => {
      runtime = runtimeOf(read(next))
    },
    close: () => listener.close(),
  }
}

function runtimeOf({ listen, auth }: Settings): HttpRuntime {
  const has = (upstream: string): boolean => upstream === 'files' || upstream === 'other'
  return {
    listen,
    auth,
    proxies: noProxy,
    has,
    withTool: (call: Call) => ({ call, mirror: [] }),
    documents: [],
  }
}

function read(config: Json): Settings {
  const upstreams = { files: 'server', other: 'server' }
  const listen = { port: 0, ...(isObject(config['listen']) && config['listen']) }
  const text = JSON.stringify({ upstreams, ...config, listen })
  return loadSettings(text, { file: 'gateway.config.yaml', env: {} }).settings
}

const handle: Handler = async ({ method, target, principal }) => {
  if (method !== 'tools/call') return { kind: 'result', result: Payload.of({ capabilities: {}, tools: [] }) }
  const { name = '' } = target
  if (name === 'relay') {
    const relayed = Payload.of({ code: -32000, message: 'You lack a scope of mine.' })
    throw new GatewayError('SCOPE_INSUFFICIENT', 'You lack a scope of mine.', { relayed })
  }
  if (name === 'narrowed') {
    const details = { required_scopes: ['mcp.read'], missing_scopes: ['mcp.read'] }
    throw new GatewayError('SCOPE_INSUFFICIENT', 'Missing scope: mcp.read', { details, isOfSession: true })
  }
  if (name !== 'whoami' && principal.scopes && !principal.scopes.has(name)) {
    throw new GatewayError('SCOPE_INSUFFICIENT', `Missing scope: ${name}`, {
      details: { required_scopes: [name], missing_scopes: [name] },
    })
  }
  const said = { id: principal.id, scopes: principal.scopes && [...principal.scopes] }
  return { kind: 'result', result: Payload.of({ content: [], said }) }
}

function paramsOf(method: string, tool: string): Json {
  return {
    ...(method === 'tools/call' && { name: tool, arguments: {} }),
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  }
}

function recorder(lines: Json[]): Log {
  const at =
    (level: string): Log['info'] =>
    (event, fields) =>
      void lines.push({ level, event, ...fields })
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function parsed(text: string): Json {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : {}
  } catch {
    return { text }
  }
}
