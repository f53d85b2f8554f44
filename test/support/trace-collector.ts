import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { until } from './condition.ts'

/** A span as it was received over OTLP/HTTP. */
interface Received {
  readonly name: string
  readonly kind: number
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[]
  readonly status: { readonly code?: number }
  readonly attributes: Readonly<Record<string, unknown>>
}

/** Receives spans, until the test is over. */
export interface Collector {
  readonly url: string
  readonly headers: readonly Readonly<Record<string, unknown>>[]
  /** Everything that was posted, as text. */
  text(): string
  /** Waits for a span that fits. */
  span(fits: (span: Received) => boolean): Promise<Received>
  /** Waits for so many spans of a trace. */
  spans(traceId: string, count: number): Promise<readonly Received[]>
}

interface Posted {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly (Omit<Received, 'attributes'> & Attributes)[] }[]
  }[]
}

interface Attributes {
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[]
}

/** Starts a receiver of spans. */
export async function traceCollector(): Promise<Collector> {
  const bodies: string[] = []
  const headers: Readonly<Record<string, unknown>>[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
    request.on('end', () => {
      bodies.push(body)
      headers.push(request.headers)
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const received = (): Received[] => bodies.flatMap((body) => spansOf(JSON.parse(body)))
  return {
    url: `http://127.0.0.1:${port}`,
    headers,
    text: () => bodies.join('\n'),
    span: (fits) => until(() => received().find(fits), 'the span'),
    spans: (traceId, count) =>
      until(() => {
        const spans = received().filter((span) => span.traceId === traceId)
        return spans.length >= count && spans
      }, `${count} spans`),
  }
}

function spansOf({ resourceSpans }: Posted): Received[] {
  const spans = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((each) => each.spans))
  return spans.map((span) => ({
    ...span,
    attributes: Object.fromEntries(span.attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
  }))
}
