/** OpenTelemetry spans of calls, exported over OTLP. The library is loaded only if traces are on. */
import type { Attributes, Context, Span, SpanContext, SpanKind } from '@opentelemetry/api'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import type { Call, Target } from '../core/call.ts'
import type { Log } from '../core/log.ts'
import type { TraceSettings } from '../core/settings.ts'
import { self } from '../core/identity.ts'
import { type Ending, displayUri } from './ending.ts'

/** A span, and the call with its trace context. */
interface CallSpan {
  readonly call: Call
  end(ending: Ending): void
}

/** The transport of a call. */
export interface Way {
  readonly transport: 'tcp' | 'pipe'
  readonly address?: string
  readonly port?: number
  /** The protocol revision. */
  readonly revision?: string | undefined
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

/** Loads the exporter. Never called if traces are off. */
export async function openTracing(settings: TraceSettings, log: Log): Promise<Tracing> {
  const [api, sdk, { OTLPTraceExporter }, { resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
  ])
  const headers = Object.entries(settings.headers).map(([name, value]) => [name, value.reveal()] as const)
  const exporter = new OTLPTraceExporter({
    url: settings.endpoint,
    headers: Object.fromEntries(headers),
    timeoutMillis: EXPORT_TIMEOUT_MS,
  })
  const provider = new sdk.TracerProvider({
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(settings.sample) }),
    resource: resourceFromAttributes({
      'service.name': settings.serviceName,
      'service.version': self.version,
    }),
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
    const attributes = attributesOf(call, target, way)
    const { method } = call
    const isNamed = method === 'tools/call' || method === 'prompts/get'
    const name = isNamed && target.name !== undefined ? `${method} ${target.name}` : method
    // The undone call may be old and from another gateway, so it is a link.
    const links = call.undoes === undefined ? [] : [{ context: spanContext(call.undoes) }]
    const span = tracer.startSpan(name.slice(0, NAME), { kind, attributes, links }, parentOf(call))
    const { traceId, spanId, traceFlags } = span.spanContext()
    const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
    return {
      call: { ...call, meta: { ...call.meta, traceparent } },
      end: (ending) => end(span, ending, api.SpanStatusCode.ERROR),
    }
  }
  return {
    received: (call, way) => {
      const { method, calledAs = method } = call
      const span = start({ ...call, method: calledAs }, call.target, way, api.SpanKind.SERVER)
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

/** The maximum length of names and ids. */
const NAME = 200
const MAX_ID_LENGTH = 64

function attributesOf(call: Call, target: Target, way: Way): Attributes {
  const { method, rpcId } = call
  const name = target.name?.slice(0, NAME)
  const id = rpcId?.slice(0, MAX_ID_LENGTH)
  return {
    'mcp.method.name': method.slice(0, NAME),
    'mcp.protocol.version': way.revision ?? call.client.revision,
    'network.transport': way.transport,
    ...(way.transport === 'tcp' && { 'network.protocol.name': 'http' }),
    ...(way.address !== undefined && { 'server.address': way.address }),
    ...(way.port !== undefined && { 'server.port': way.port }),
    ...(typeof id === 'string' && { 'jsonrpc.request.id': id }),
    ...(method === 'tools/call' && { 'gen_ai.operation.name': 'execute_tool' }),
    ...(method === 'tools/call' && name !== undefined && { 'gen_ai.tool.name': name }),
    ...(method === 'prompts/get' && name !== undefined && { 'gen_ai.prompt.name': name }),
    ...(method === 'resources/read' && name !== undefined && { 'mcp.resource.uri': displayUri(name) }),
    ...(target.upstream !== undefined && { 'gatehouse.upstream': target.upstream }),
    'gatehouse.request_id': call.requestId,
  }
}

function end(span: Span, { outcome, code, rpc }: Ending, failed: 2): void {
  if (code !== undefined) span.setAttribute('gatehouse.error.code', code)
  if (rpc !== undefined) span.setAttribute('rpc.response.status_code', String(rpc))
  const type = rpc === undefined ? outcome : String(rpc)
  if (rpc !== undefined || outcome === 'tool_error') {
    span.setAttribute('error.type', type)
    span.setStatus({ code: failed })
  }
  span.end()
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
