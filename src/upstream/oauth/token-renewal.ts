/** Keeps a token valid: renewed before it expires, once at a time, with a pause after failures. */
import type { HttpAnswer, Login, LoginHeaders, RequestTarget } from '../transport/auth-retry.ts'
import { readChallenge } from './challenge.ts'
import type { DpopKey } from './dpop.ts'

/** An access token and its expiry, in milliseconds since the epoch. */
export interface Token {
  readonly value: string
  readonly expiresAt: number
  /** The key it is bound to (RFC 9449). */
  readonly dpop?: DpopKey
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

  headers(target?: RequestTarget): LoginHeaders | Promise<LoginHeaders> {
    const headers = this.#current()
    if (headers instanceof Promise) return headers.then((found) => this.#proved(found, target))
    return this.#proved(headers, target)
  }

  answered(answer: HttpAnswer): void {
    this.#token?.dpop?.learn(answer.header('dpop-nonce'))
  }

  #proved(headers: LoginHeaders, target: RequestTarget | undefined): LoginHeaders | Promise<LoginHeaders> {
    const { dpop, value } = this.#token ?? {}
    if (!dpop || value === undefined || !target) return headers
    return dpop.prove(value, target).then((proof) => ({ authorization: `DPoP ${value}`, dpop: proof }))
  }

  #current(): LoginHeaders | Promise<LoginHeaders> {
    const now = Date.now()
    const { expiresAt = 0 } = this.#token ?? {}
    if (this.#headers && now < this.#renewAt) return this.#headers
    if (!this.#headers || now >= expiresAt) return this.#renew()
    // Still valid: callers need not wait, and a failure surfaces once it has expired.
    this.#renew().catch(() => undefined)
    return this.#headers
  }

  async refused({ status, header }: HttpAnswer, sent: LoginHeaders): Promise<boolean> {
    if (status !== 401) return false
    // RFC 9449 §9: the token is fine, and the nonce is known from the response.
    if (sent.dpop !== undefined && readChallenge(header('www-authenticate')).error === 'use_dpop_nonce')
      return true
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
    this.#headers = { authorization: `${token.dpop ? 'DPoP' : 'Bearer'} ${token.value}` }
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
