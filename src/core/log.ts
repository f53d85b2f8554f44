/** The contracts of logs and readiness probes. */
import { GatewayError } from './error.ts'
import { excerpt } from './text/redact.ts'

/** A structured log. */
export interface Log {
  /** Whether lines of level `info` are written; per-call lines need not be built otherwise. */
  readonly isInfo?: boolean
  debug(event: string, fields?: Readonly<Record<string, unknown>>): void
  info(event: string, fields?: Readonly<Record<string, unknown>>): void
  warn(event: string, fields?: Readonly<Record<string, unknown>>): void
  error(event: string, fields?: Readonly<Record<string, unknown>>): void
}

/** Runs a promise without awaiting it; a rejection is logged instead of ending the process. */
export function background(promise: Promise<unknown>, log: Log): void {
  promise.catch((error: unknown) => {
    if (error instanceof GatewayError)
      log.warn('background', { error: excerpt(String(error), 500), code: error.code })
    else log.error('background', { error: excerpt(String(error), 500) })
  })
}

/** A component whose state is reported. */
export interface Probe {
  /** Whether the gateway cannot serve calls without it. */
  readonly isNeeded: boolean
  works(): boolean | Promise<boolean>
}

/** Probes by the name of their component. */
export type Probes = Readonly<Record<string, Probe>>
