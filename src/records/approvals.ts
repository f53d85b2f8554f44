import type { Risk } from '../core/entry.ts'

/** A call that waits for people to approve it. Kept under `approval/…` as JSON; times are milliseconds since 1970. */
export interface Approval {
  /** 128 random bits; whoever is told it may look at the page. */
  readonly id: string
  /** By the caller itself in a browser, or by others. */
  readonly kind: 'page' | 'out_of_band'
  /** `Principal.id` of who makes the call. */
  readonly caller: string
  readonly upstream: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** What the call is known by: the caller, the tool and the arguments. */
  readonly digest: string
  readonly risk: Risk
  /** What the person is asked. */
  readonly message: string
  /** What the person has to type, where it takes that. */
  readonly typed?: string
  readonly createdAt: number
  readonly expiresAt: number
  /** How many have to approve, and who may; anybody but the caller where none is named. */
  readonly needed: number
  readonly approvers: readonly string[]
  readonly decisions: readonly Decision[]
  readonly status: 'pending' | 'approved' | 'denied' | 'used'
}

/** What one person decided. */
export interface Decision {
  readonly by: string
  /** How the person was known: with name and password, by the code of a terminal, a token, at the command line. */
  readonly via: 'password' | 'code' | 'token' | 'command_line'
  readonly verdict: 'approved' | 'denied'
  readonly at: number
  readonly reason?: string
}
