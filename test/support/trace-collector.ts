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

/** The counts of one set of attributes of a histogram, as they were received over OTLP/HTTP. */
interface Point {
  readonly attributes: Readonly<Record<string, unknown>>
  readonly count: number
  readonly sum: number
  readonly bounds: readonly number[]
}

/** Receives spans and metrics, until the test is over. */
export interface Collector {
  readonly url: string
  readonly headers: readonly Readonly<Record<string, unknown>>[]
  /** The path and body of each request, in their order. */
  readonly posted: readonly { readonly path: string; readonly body: string }[]
  /** Everything that was posted, as text. */
  text(): string
  /** Waits for a span that fits. */
  span(fits: (span: Received) => boolean): Promise<Received>
  /** Waits for so many spans of a trace. */
  spans(traceId: string, count: number): Promise<readonly Received[]>
  /** The histogram of a name, as it was received last. */
  points(name: string): readonly Point[]
  /** Waits for such counts of a histogram. */
  point(name: string, fits: (point: Point) => boolean): Promise<Point>
}

interface PostedMetrics {
  readonly resourceMetrics: readonly {
    readonly scopeMetrics: readonly {
      readonly metrics: readonly {
        readonly name: string
        readonly unit: string
        readonly histogram: { readonly dataPoints: readonly PostedPoint[] }
      }[]
    }[]
  }[]
}

interface PostedPoint extends Attributes {
  readonly count: number | string
  readonly sum: number
  readonly explicitBounds: readonly number[]
}

interface Posted {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly (Omit<Received, 'attributes'> & Attributes)[] }[]
  }[]
}

interface Attributes {
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[]
}

/** Starts a receiver of spans and metrics in JSON. */
export async function traceCollector(): Promise<Collector> {
  const posted: { path: string; body: string }[] = []
  const headers: Readonly<Record<string, unknown>>[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
    request.on('end', () => {
      posted.push({ path: request.url ?? '', body })
      headers.push(request.headers)
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const of = (signal: string): string[] =>
    posted.filter(({ path }) => path === `/v1/${signal}`).map(({ body }) => body)
  const received = (): Received[] => of('traces').flatMap((body) => spansOf(JSON.parse(body)))
  const points = (name: string): readonly Point[] => {
    const last = of('metrics').at(-1)
    return last === undefined ? [] : pointsOf(JSON.parse(last), name)
  }
  return {
    url: `http://127.0.0.1:${port}`,
    headers,
    posted,
    text: () => posted.map(({ body }) => body).join('\n'),
    points,
    point: (name, fits) => until(() => points(name).find(fits), name),
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
  return spans.map((span) => ({ ...span, attributes: attributesOf(span) }))
}

function pointsOf({ resourceMetrics }: PostedMetrics, name: string): Point[] {
  const metrics = resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((each) => each.metrics))
  const found = metrics.filter((each) => each.name === name && each.unit === 's')
  return found.flatMap(({ histogram }) =>
    histogram.dataPoints.map((point) => ({
      attributes: attributesOf(point),
      count: Number(point.count),
      sum: point.sum,
      bounds: point.explicitBounds,
    })),
  )
}

function attributesOf({ attributes }: Attributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
