import type { Secret } from './secret.ts'

/** What is told of calls, and to whom. */
export interface ObserveSettings {
  /** Whether `/metrics` answers. */
  readonly metrics: boolean
  /** The least important log lines that are written, where the command line does not say. */
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error'
  /** Absent where no spans are sent. */
  readonly traces?: TraceSettings
  /** Absent where no audit log is kept. */
  readonly audit?: AuditSettings
}

/** Where spans are sent, over OTLP/HTTP. */
export interface TraceSettings {
  readonly endpoint: string
  readonly headers: Readonly<Record<string, Secret>>
  /** Which part of the traces that begin here is recorded, from 0 to 1. */
  readonly sample: number
  readonly serviceName: string
}

/** The file calls and refusals are recorded in. */
export interface AuditSettings {
  /** An absolute path. */
  readonly file: string
  /** Makes the digests of arguments, so that nobody without it can try out what the arguments were. */
  readonly key?: Secret
  /** How large a file may get before the next is begun, in bytes. */
  readonly maxSize: number
  /** How many full files are kept; all where absent. */
  readonly keep?: number
}
