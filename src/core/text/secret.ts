/** A value that is never printed: it has to be revealed explicitly. */
import { hash } from 'node:crypto'
import { inspect } from 'node:util'

/** A configured value that must not be printed: it becomes `***` whenever it is converted to text. */
export class Secret {
  readonly #value: string
  /** Whether it occurs in ordinary texts, such as `production`, so that those are not searched for it. */
  readonly isOrdinary: boolean
  #digest: string | undefined

  constructor(value: string, { isOrdinary = false }: { readonly isOrdinary?: boolean } = {}) {
    this.#value = value
    this.isOrdinary = isOrdinary
  }

  /** The value itself, for the code that sends it. */
  reveal(): string {
    return this.#value
  }

  /** Identifies it within this process; computed on first use. */
  get digest(): string {
    this.#digest ??= hash('sha256', this.#value, 'base64')
    return this.#digest
  }

  toString(): string {
    return '***'
  }

  toJSON(): string {
    return '***'
  }

  [inspect.custom](): string {
    return '***'
  }
}

/** The values of secrets by their names, for the code that sends them. */
export function revealed(secrets: Readonly<Record<string, Secret>>): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).map(([name, secret]) => [name, secret.reveal()]))
}
