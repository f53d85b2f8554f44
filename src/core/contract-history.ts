import type { Contract, ContractChange } from './contract.ts'

/** The contract of a server as it was last seen, and how it became so. Kept under `contract/…` as JSON. */
export interface ContractHistory {
  readonly upstream: string
  readonly contract: Contract
  /** The newest first. */
  readonly versions: readonly ContractVersion[]
}

/** One version of a contract. */
export interface ContractVersion {
  readonly version: string
  /** When it was first seen, in milliseconds since 1970. */
  readonly at: number
  readonly changes: readonly KeptChange[]
  /** How many changes there were more than are kept. */
  readonly more?: number
}

/** A change, and whether something went that was not announced, or not for long enough. */
export type KeptChange = ContractChange & { readonly isEarly?: true }
