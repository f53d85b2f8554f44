import type { Log } from '../../src/core/log.ts'

const ignore = (): void => undefined

/** A log nobody reads. */
export const silentLog: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore }
