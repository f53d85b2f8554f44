/** A part of the gateway whose state is told of. */
export interface Probe {
  /** Whether no call can be served without it. */
  readonly isNeeded: boolean
  works(): boolean | Promise<boolean>
}

/** Parts by name. */
export type Probes = Readonly<Record<string, Probe>>
