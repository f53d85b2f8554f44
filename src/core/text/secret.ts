/** A value that is never printed: it has to be revealed by name. */
import { hash } from 'node:crypto'
import { inspect } from 'node:util'

/** A configured value that must not be printed: it shows as `***` wherever it is turned into text. */
export class Secret {
  readonly #value: string
  #digest: string | undefined

  constructor(value: string) {
    this.#value = value
  }

  /** The value itself, for the one place that sends it. */
  reveal(): string {
    return this.#value
  }

  /** Tells it from others in this process; made when it is first wanted. */
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
