/** A value that is never printed: it has to be revealed explicitly. Also the only list of names that say a value is secret. */
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

const secret =
  /authorization|cookie|passw(?:or)?d|passphrase|passcode|secret|credential|(?:api|private|access|signing|encryption|auth|subscription|shared|master)_?key|token$|(?:^|_)(?:pwd|pat|dsn|otp|cvv|cvc)$/
/** What is said about a secret, or is called a token and is none. */
const ordinary =
  /(?:^|_)(?:page|next|prev|previous|continuation|sync|start|progress|cursor)_?token$|_(?:id|name|arn|path|file|url|uri|type|kind|count|length|size|ttl|expiry|expires(?:_at|_in)?|at|policy|version|required|enabled|format|label|ref|scope|manager)s?$|secretar(?:y|ies)/

const known = new Map<string, boolean>()
/** The maximum number of cached decisions, and the longest such name in characters. */
const MAX_CACHED_NAMES = 1000
const MAX_CACHED_NAME_LENGTH = 100

/** Whether a value with this name is a secret: `apiKey`, `client_secret`, `x-auth-token`; not `secret_name`, `next_token`. */
export function isSecretName(name: string): boolean {
  const found = known.get(name)
  if (found !== undefined) return found
  const words = name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1_$2')
    .replaceAll(/[^A-Za-z\d]+/g, '_')
    .toLowerCase()
  const isSecret = secret.test(words) && !ordinary.test(words)
  if (known.size < MAX_CACHED_NAMES && name.length <= MAX_CACHED_NAME_LENGTH) known.set(name, isSecret)
  return isSecret
}
