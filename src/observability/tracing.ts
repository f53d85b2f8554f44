/**
 * OpenTelemetry spans of calls, exported over OTLP, by the MCP semantic conventions. The library is loaded only if traces
 * are on. https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
 */
import type { Attributes, Context, SpanContext, SpanKind } from '@opentelemetry/api'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import type { Resource } from '@opentelemetry/resources'
import type { Call, Target } from '../core/call.ts'
import { type SentRequest, undoesSlot, calledAsSlot, peerSlot, onSentSlot } from '../core/exchange.ts'
import type { GatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import type { TraceSettings, OtlpSettings } from '../core/settings.ts'
import { self, sessionDigest } from '../core/identity.ts'
import { parseJson } from '../core/json/read.ts'
import { excerpt } from '../core/text/redact.ts'
import { revealed } from '../core/text/secret.ts'
import { type Ending, displayUri } from './ending.ts'
import { servedStatus, sentStatus, type Way } from './operations.ts'

/** A span, and the call with its trace context. */
interface CallSpan {
  readonly call: Call
  /** Ends it; `error` is what the call failed with. */
  end(ending: Ending, error?: GatewayError): void
}

/** Creates spans by the MCP semantic conventions of OpenTelemetry. */
export interface Tracing {
  /** Starts the server span of a call. */
  received(call: Call, way: Way): CallSpan
  /** Starts the client span of a call to an upstream. */
  sent(call: Call, target: Target, way: Way): CallSpan
  /** Exports the remaining spans. */
  close(): Promise<void>
}

/** The timeout of an export, including the last one, in milliseconds. */
const EXPORT_TIMEOUT_MS = 3000

/** Loads the exporter. Never called if traces are off. `redacted` takes secrets out of a text. */
export async function openTracing(
  settings: TraceSettings,
  { log, redacted }: { readonly log: Log; redacted(text: string): string },
): Promise<Tracing> {
  const [api, sdk, { OTLPTraceExporter }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    settings.protocol === 'http/protobuf'
      ? import('@opentelemetry/exporter-trace-otlp-proto')
      : import('@opentelemetry/exporter-trace-otlp-http'),
  ])
  const exporter = new OTLPTraceExporter({
    url: settings.endpoint,
    headers: revealed(settings.headers),
    timeoutMillis: EXPORT_TIMEOUT_MS,
  })
  const provider = new sdk.TracerProvider({
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(settings.sample) }),
    resource: await resourceOf(settings),
    spanProcessors: [
      new sdk.BatchSpanProcessor({ exporter: withFailureLog(exporter, log), scheduledDelayMillis: 1000 }),
    ],
  })
  const tracer = provider.getTracer(self.name, self.version)

  const parentOf = ({ meta }: Call): Context => {
    const { traceparent, tracestate } = meta
    if (typeof traceparent !== 'string') return api.ROOT_CONTEXT
    return api.trace.setSpanContext(api.ROOT_CONTEXT, {
      ...spanContext(traceparent),
      ...(typeof tracestate === 'string' && { traceState: api.createTraceState(tracestate) }),
    })
  }
  const start = (call: Call, target: Target, way: Way, kind: SpanKind): CallSpan => {
    const isServer = kind === api.SpanKind.SERVER
    const attributes = attributesOf(call, target, way)
    if (isServer) Object.assign(attributes, ofClient(call))
    const { method } = call
    const isNamed = method === 'tools/call' || method === 'prompts/get'
    const name = isNamed && target.name !== undefined ? `${method} ${target.name}` : method
    // The undone call may be old and from another gateway, so it is a link.
    const undone = undoesSlot.of(call)
    const links = undone === undefined ? [] : [{ context: spanContext(undone) }]
    const span = tracer.startSpan(name.slice(0, NAME), { kind, attributes, links }, parentOf(call))
    const { traceId, spanId, traceFlags } = span.spanContext()
    const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
    const ended = (ending: Ending, error?: GatewayError): void => {
      const status = isServer ? servedStatus(ending) : sentStatus(error, ending.outcome === 'tool_error')
      if (ending.code !== undefined) span.setAttribute('gatehouse.error.code', ending.code)
      if (status.code !== undefined) span.setAttribute('rpc.response.status_code', status.code)
      if (status.type !== undefined) {
        span.setAttribute('error.type', status.type)
        // The message may quote what a server said, with what it was told.
        const message = error && excerpt(redacted(error.message), MAX_MESSAGE_LENGTH)
        span.setStatus({ code: api.SpanStatusCode.ERROR, ...(message !== undefined && { message }) })
      }
      span.end()
    }
    const reported = onSentSlot.of(call)
    const onSent = (request: SentRequest): void => {
      span.setAttributes(ofRequest(request))
      reported?.(request)
    }
    const traced = { ...call, meta: { ...call.meta, traceparent } }
    return { call: isServer ? traced : onSentSlot.set(traced, onSent), end: ended }
  }
  return {
    received: (call, way) => {
      const { method } = call
      const span = start(
        { ...call, method: calledAsSlot.of(call) ?? method },
        call.target,
        way,
        api.SpanKind.SERVER,
      )
      return { ...span, call: { ...span.call, method } }
    },
    sent: (call, target, way) => start(call, target, way, api.SpanKind.CLIENT),
    close: async () => {
      const late = new Promise((resolve) => setTimeout(resolve, EXPORT_TIMEOUT_MS).unref())
      await Promise.race([provider.shutdown().catch(() => undefined), late])
    },
  }
}

/** Parses a `traceparent` that was already validated (W3C Trace Context). */
function spanContext(traceparent: string): SpanContext {
  const [, traceId = '', spanId = '', flags = '00'] = traceparent.split('-')
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
}

/** The maximum length of names, ids and messages. */
const NAME = 200
const MAX_ID_LENGTH = 64
const MAX_MESSAGE_LENGTH = 300

function attributesOf(call: Call, target: Target, way: Way): Attributes {
  const { method } = call
  const name = target.name?.slice(0, NAME)
  const isNamed = name !== undefined
  return {
    'mcp.method.name': method.slice(0, NAME),
    'network.transport': way.transport,
    ...(way.transport === 'tcp' && { 'network.protocol.name': 'http' }),
    ...(way.httpVersion !== undefined && { 'network.protocol.version': way.httpVersion }),
    ...(way.address !== undefined && { 'server.address': way.address }),
    ...(way.port !== undefined && { 'server.port': way.port }),
    ...(method === 'tools/call' && { 'gen_ai.operation.name': 'execute_tool' }),
    ...(method === 'tools/call' && isNamed && { 'gen_ai.tool.name': name }),
    ...(method === 'prompts/get' && isNamed && { 'gen_ai.prompt.name': name }),
    ...(method.startsWith('resources/') && isNamed && { 'mcp.resource.uri': displayUri(name) }),
    ...(target.upstream !== undefined && { 'gatehouse.upstream': target.upstream }),
    'gatehouse.request_id': call.requestId,
  }
}

/** The attributes of a client's request: its id, revision, session and connection. */
function ofClient(call: Call): Attributes {
  const { client, rpcId } = call
  const peer = peerSlot.of(call)
  const { remoteAddress, remotePort } = peer?.socket ?? {}
  return {
    'mcp.protocol.version': client.revision,
    ...(client.era === 'legacy' && client.session !== undefined && sessionAttribute(client.session)),
    ...(rpcId !== undefined && { 'jsonrpc.request.id': idText(rpcId) }),
    ...(peer && { 'network.protocol.version': peer.httpVersion }),
    ...(remoteAddress !== undefined && { 'client.address': remoteAddress.replace(/^::ffff:(?=\d+\.)/, '') }),
    ...(remoteAddress !== undefined && remotePort !== undefined && { 'client.port': remotePort }),
  }
}

/** What is known once the request is sent to a server. */
function ofRequest({ id, revision, session }: SentRequest): Attributes {
  return {
    'jsonrpc.request.id': String(id),
    'mcp.protocol.version': revision,
    ...(session !== undefined && sessionAttribute(session)),
  }
}

/** The text of an id: that of a string is without its quotes. */
function idText(id: string): string {
  const text: unknown = id.startsWith('"') ? parseJson(id) : id
  return String(text).slice(0, MAX_ID_LENGTH)
}

function sessionAttribute(session: string): Attributes {
  return { 'mcp.session.id': sessionDigest(session) }
}

/** Logs failed exports. */
function withFailureLog(exporter: SpanExporter, log: Log): SpanExporter {
  return {
    export: (spans, done) => {
      exporter.export(spans, (result) => {
        if (result.error) log.warn('traces.failed', { spans: spans.length, reason: result.error.message })
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  }
}

/** This service, as its spans and metrics name it. @throws an Error if the protocol or endpoint cannot be used */
export async function resourceOf({ resource, serviceName, problem }: OtlpSettings): Promise<Resource> {
  if (problem !== undefined) throw new Error(problem)
  const { resourceFromAttributes } = await import('@opentelemetry/resources')
  return resourceFromAttributes({
    ...resource,
    'service.name': serviceName,
    'service.version': self.version,
  })
}
