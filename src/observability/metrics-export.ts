/** Exports the metrics of the MCP semantic conventions over OTLP. The library is loaded only if the export is on. */
import type { Attributes, HrTime } from '@opentelemetry/api'
import type { HistogramMetricData, ResourceMetrics } from '@opentelemetry/sdk-metrics'
import { background, type Log } from '../core/log.ts'
import type { MetricsExportSettings } from '../core/settings.ts'
import { self } from '../core/identity.ts'
import { within } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import type { Durations } from './histogram.ts'
import { revealed } from '../core/text/secret.ts'
import { resourceOf } from './tracing.ts'

/** The running export. */
export interface MetricsExport {
  /** Exports a last time. */
  close(): Promise<void>
}

/** How long the last export may take, in milliseconds. */
const LAST_EXPORT_MS = 3000

/** Exports histograms, by their names in OpenTelemetry, every interval: their counts since the process began. */
export async function openMetricsExport(
  settings: MetricsExportSettings,
  histograms: () => ReadonlyMap<string, Durations>,
  log: Log,
): Promise<MetricsExport> {
  const [api, sdk, { OTLPMetricExporter }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-metrics'),
    settings.protocol === 'http/protobuf'
      ? import('@opentelemetry/exporter-metrics-otlp-proto')
      : import('@opentelemetry/exporter-metrics-otlp-http'),
  ])
  const resource = await resourceOf(settings)
  const exporter = new OTLPMetricExporter({
    url: settings.endpoint,
    headers: revealed(settings.headers),
    timeoutMillis: settings.timeout,
  })
  const startTime = timeOf(world.now() - Math.round(process.uptime() * 1000))
  const dataOf = (name: string, { description, sets }: Durations): HistogramMetricData => ({
    descriptor: { name, description: description.help, unit: 's', valueType: api.ValueType.DOUBLE },
    aggregationTemporality: sdk.AggregationTemporality.CUMULATIVE,
    dataPointType: sdk.DataPointType.HISTOGRAM,
    dataPoints: sets.map(({ counts: { values, counts, sum }, isOverflow }) => ({
      startTime,
      endTime: timeOf(world.now()),
      attributes: isOverflow ? { 'otel.metric.overflow': true } : attributesOf(description.labels, values),
      value: {
        buckets: { boundaries: [...description.bounds], counts: [...counts] },
        sum,
        count: counts.reduce((total, each) => total + each, 0),
      },
    })),
  })
  let exporting: Promise<void> | undefined
  const exportNow = (): Promise<void> => {
    const metrics = [...histograms()].map(([name, each]) => dataOf(name, each))
    const filled = metrics.filter(({ dataPoints }) => dataPoints.length > 0)
    if (filled.length === 0) return Promise.resolve()
    const scope = { name: self.name, version: self.version }
    const data: ResourceMetrics = { resource, scopeMetrics: [{ scope, metrics: filled }] }
    return new Promise((resolve) => {
      exporter.export(data, ({ error }) => {
        if (error) log.warn('metrics.failed', { reason: error.message })
        resolve()
      })
    })
  }
  const timer = world.setInterval(() => {
    // A slow receiver gets the next counts later.
    exporting ??= exportNow().finally(() => {
      exporting = undefined
    })
    background(exporting, log)
  }, settings.interval)
  timer.unref()
  return {
    close: async () => {
      world.clearInterval(timer)
      const last = (exporting ?? Promise.resolve()).then(exportNow).then(() => exporter.shutdown())
      await within(
        last.catch(() => undefined),
        LAST_EXPORT_MS,
        undefined,
      )
    },
  }
}

function attributesOf(
  labels: readonly string[],
  values: readonly (string | number | undefined)[],
): Attributes {
  return Object.fromEntries(
    labels.map((label, at) => [label, values[at]]).filter(([, value]) => value !== undefined),
  )
}

function timeOf(milliseconds: number): HrTime {
  return [Math.floor(milliseconds / 1000), (milliseconds % 1000) * 1e6]
}
