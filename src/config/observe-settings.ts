import { dirname, resolve } from 'node:path'
import type { AuditSettings, ObserveSettings, TraceSettings } from '../core/observe-settings.ts'
import type { Secret } from '../core/secret.ts'

/** `observe` of a file, with its defaults. */
export interface ObserveValues {
  readonly metrics: boolean
  readonly log: { readonly level?: NonNullable<ObserveSettings['logLevel']> }
  readonly traces?: {
    readonly endpoint: string
    readonly headers?: Readonly<Record<string, Secret>>
    readonly sample: number
    readonly service_name: string
  }
  readonly audit?: boolean | string | AuditValues
}

interface AuditValues {
  readonly file?: string
  readonly key?: Secret
  readonly max_size: number
  readonly keep?: number
}

interface Around {
  readonly profile: 'open' | 'corporate'
  /** The configuration file, where there is one. */
  readonly file?: string
  /** What relative paths are relative to. */
  readonly directory: string
}

const MAX_SIZE = 100 * 1024 ** 2

/** Turns the values of `observe` into settings. */
export function observeSettings(values: ObserveValues, around: Around): ObserveSettings {
  const { metrics, log, traces } = values
  const audit = auditSettings(values.audit, around)
  return {
    metrics,
    ...(log.level !== undefined && { logLevel: log.level }),
    ...(traces && { traces: traceSettings(traces) }),
    ...(audit && { audit }),
  }
}

function traceSettings(traces: NonNullable<ObserveValues['traces']>): TraceSettings {
  const { endpoint, headers = {}, sample, service_name: serviceName } = traces
  return {
    endpoint: endpoint.replace(/^(https?:\/\/[^/?#]+)\/?(?=[?#]|$)/, '$1/v1/traces'),
    headers,
    sample,
    serviceName,
  }
}

function auditSettings(
  audit: ObserveValues['audit'],
  { profile, file, directory }: Around,
): AuditSettings | undefined {
  const isWanted = audit ?? (profile === 'corporate' && file !== undefined)
  if (isWanted === false) return undefined
  const values: AuditValues =
    typeof isWanted === 'object'
      ? isWanted
      : { max_size: MAX_SIZE, ...(typeof isWanted === 'string' && { file: isWanted }) }
  const place = file === undefined ? directory : dirname(file)
  const { key, keep, max_size: maxSize } = values
  return {
    file:
      values.file === undefined ? resolve(place, '.gatehouse/audit.jsonl') : resolve(directory, values.file),
    maxSize,
    ...(key && { key }),
    ...(keep !== undefined && { keep }),
  }
}
