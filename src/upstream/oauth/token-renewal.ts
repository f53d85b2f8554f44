/** Keeps a token valid: renewed before it expires, once at a time, with a pause after failures. */
import type { Login, LoginHeaders, HttpAnswer } from '../transport/auth-retry.ts'

/** An access token and its expiry, in milliseconds since the epoch. */
export interface Token {
  readonly value: string
  readonly expiresAt: number
}

/** Obtains a token; `refused` is one that is no longer valid, whatever its expiry. */
export type Obtain = (refused: string | undefined) => Promise<Token>

/** The latest renewal before the expiry, in milliseconds. */
const RENEW_AHEAD_MS = 60_000
/** How long a failure to obtain a token is cached, in milliseconds. */
const FAILURE_PAUSE_MS = 2000

/** A login whose token is renewed before it expires, with one request for all waiting calls. */
export class RenewingLogin implements Login {
  readonly #obtain: Obtain
  #token: Token | undefined
  #headers: LoginHeaders | undefined
  #renewAt = 0
  #refused: string | undefined
  #pending: Promise<LoginHeaders> | undefined
  #failure: { readonly error: unknown; readonly until: number } | undefined

  constructor(obtain: Obtain) {
    this.#obtain = obtain
  }

  /** Whether there is a token; it may have to be renewed. */
  get isReady(): boolean {
    return this.#headers !== undefined
  }

  headers(): LoginHeaders | Promise<LoginHeaders> {
    const now = Date.now()
    const { expiresAt = 0 } = this.#token ?? {}
    if (this.#headers && now < this.#renewAt) return this.#headers
    if (!this.#headers || now >= expiresAt) return this.#renew()
    // Still valid: callers need not wait, and a failure surfaces once it has expired.
    this.#renew().catch(() => undefined)
    return this.#headers
  }

  async refused({ status }: HttpAnswer, sent: LoginHeaders): Promise<boolean> {
    if (status !== 401) return false
    // Another request may have been refused before.
    if (this.#headers === sent || this.#headers?.authorization === sent.authorization) this.drop()
    await this.headers()
    return true
  }

  /** Marks the token as no longer valid. */
  drop(): void {
    this.#refused = this.#token?.value ?? this.#refused
    this.#token = this.#headers = undefined
  }

  /** Continues with a token obtained elsewhere. */
  accept(token: Token): LoginHeaders {
    const now = Date.now()
    this.#failure = this.#refused = undefined
    this.#token = token
    this.#renewAt = token.expiresAt - Math.min(RENEW_AHEAD_MS, (token.expiresAt - now) / 5)
    this.#headers = { authorization: `Bearer ${token.value}` }
    return this.#headers
  }

  #renew(): Promise<LoginHeaders> {
    if (this.#pending) return this.#pending
    if (this.#failure && Date.now() < this.#failure.until) return Promise.reject(this.#failure.error)
    const pending = this.#obtain(this.#refused).then(
      (token) => this.accept(token),
      (error: unknown) => {
        this.#failure = { error, until: Date.now() + FAILURE_PAUSE_MS }
        throw error
      },
    )
    this.#pending = pending.finally(() => {
      this.#pending = undefined
    })
    return this.#pending
  }
}
