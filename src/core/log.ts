/** The contract of logs and of readiness probes. */
import { GatewayError } from './error.ts'
import { excerpt } from './text/redact.ts'

/** Where things that happen are written down. */
export interface Log {
  /** Whether ordinary lines are written: what is done for each call need not be put into words otherwise. */
  readonly isInfo?: boolean
  debug(event: string, fields?: Readonly<Record<string, unknown>>): void
  info(event: string, fields?: Readonly<Record<string, unknown>>): void
  warn(event: string, fields?: Readonly<Record<string, unknown>>): void
  error(event: string, fields?: Readonly<Record<string, unknown>>): void
}

/** Lets a promise run unawaited; a rejection is logged instead of ending the process. */
export function background(promise: Promise<unknown>, log: Log): void {
  promise.catch((error: unknown) => {
    if (error instanceof GatewayError)
      log.warn('background', { error: excerpt(String(error), 500), code: error.code })
    else log.error('background', { error: excerpt(String(error), 500) })
  })
}

/** A part of the gateway whose state is reported. */
export interface Probe {
  /** Whether no call can be served without it. */
  readonly isNeeded: boolean
  works(): boolean | Promise<boolean>
}

/** Parts by name. */
export type Probes = Readonly<Record<string, Probe>>
