/** Sends a request with credentials, and once more with new ones if it is refused. */
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { Spool } from '../../core/spool.ts'
import type { ServerEvent } from '../../protocol/sse.ts'

/** An HTTP request, and the callbacks for its response. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** All headers; start from `baseHeaders`. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Path and query, if they differ from the client's URL. */
  readonly path?: string
  /** The timeout of the whole exchange, in milliseconds. */
  readonly timeout?: number
  /** The delay before it, in milliseconds. */
  readonly delay?: number
  onEvent?(event: ServerEvent): void
  onRetry?(milliseconds: number): void
  /** Called when the status and headers have arrived. */
  onHead?(answer: HttpAnswer): void
  onAbortable?(abort: () => void): void
  /** Where long strings of the message that arrives now are kept, if they are. */
  spool?(): Spool | undefined
}

/** A complete HTTP response. Events were delivered as they arrived. */
export interface HttpAnswer {
  readonly status: number
  readonly isEventStream: boolean
  /** Whether all of it has arrived: a stream that broke is a response too. */
  readonly isComplete: boolean
  readonly body: string
  header(name: string): string | undefined
}

export type LoginHeaders = Readonly<Record<string, string>>

/** What a request is sent to. */
export interface RequestTarget {
  readonly method: string
  readonly url: string
}

/** Provides the credentials of requests. */
export interface Login {
  /**
   * The headers to add to a request; immediately if they are known. Without a request, just the token is obtained.
   * @throws SERVER_UNAVAILABLE, AUTHENTICATION_REQUIRED
   */
  headers(target?: RequestTarget): LoginHeaders | Promise<LoginHeaders>
  /** The server answered 401 or 403 to these headers. Resolves with whether to retry. */
  refused(refusal: HttpAnswer, sent: LoginHeaders): Promise<boolean>
  /** Called with the head of each response. */
  answered?(answer: HttpAnswer): void
}

interface Ends {
  resolve(answer: HttpAnswer): void
  reject(error: unknown): void
}

/**
 * Sends a request with the headers of a login. A refused request was not executed, so it is sent once more if the login
 * has better credentials.
 */
export function startWithAuth(
  login: Login,
  { request, url }: { readonly request: HttpRequest; readonly url: string },
  send: (request: HttpRequest, ends: Ends) => void,
  { resolve, reject }: Ends,
): void {
  let stop: (() => void) | undefined
  let isStopped = false
  request.onAbortable?.(() => {
    isStopped = true
    stop?.()
  })
  const onAbortable = (abort: () => void): void => {
    stop = abort
    if (isStopped) abort()
  }

  const attempt = (headers: LoginHeaders, isLast: boolean): void => {
    if (isStopped) return reject(new GatewayError('CANCELLED', 'The request was cancelled.'))
    const end = (answer: HttpAnswer): void => {
      if (isLast || !isRefusal(answer)) return resolve(answer)
      login.refused(answer, headers).then((isWorth) => {
        if (isWorth) return begin(true)
        request.onHead?.(answer)
        resolve(answer)
      }, reject)
    }
    const onHead = (answer: HttpAnswer): void => {
      login.answered?.(answer)
      // An attempt that may be repeated is not reported.
      if (isLast || !isRefusal(answer)) request.onHead?.(answer)
    }
    send(withAuthRetry(request, headers, { onAbortable, onHead }), { resolve: end, reject })
  }
  const begin = (isLast: boolean): void => {
    try {
      const headers = login.headers({ method: request.method, url })
      if (headers instanceof Promise) headers.then((found) => attempt(found, isLast), reject)
      else attempt(headers, isLast)
    } catch (error) {
      reject(error)
    }
  }
  begin(false)
}

/** Whether a failure concerns credentials. */
export function isOfCredentials(error: unknown): boolean {
  const { code, extra } = asGatewayError(error)
  const status = extra.details?.http_status
  return code === 'AUTHENTICATION_REQUIRED' || status === 401 || status === 403
}

/** Whether a response concerns credentials and not the request itself. */
export function isAboutCredentials(answer: HttpAnswer): boolean {
  return answer.status === 401 || (answer.status === 403 && answer.header('www-authenticate') !== undefined)
}

function isRefusal({ status }: HttpAnswer): boolean {
  return status === 401 || status === 403
}

type Attempt = Required<Pick<HttpRequest, 'onAbortable' | 'onHead'>>

function withAuthRetry(request: HttpRequest, headers: LoginHeaders, attempt: Attempt): HttpRequest {
  const { body, path, timeout, onEvent } = request
  return {
    method: request.method,
    headers: { ...request.headers, ...headers },
    ...(body !== undefined && { body }),
    ...(path !== undefined && { path }),
    ...(timeout !== undefined && { timeout }),
    ...(onEvent && { onEvent: (event) => request.onEvent?.(event) }),
    ...(request.spool && { spool: () => request.spool?.() }),
    onRetry: (milliseconds) => request.onRetry?.(milliseconds),
    onHead: (answer) => attempt.onHead(answer),
    onAbortable: (abort) => attempt.onAbortable(abort),
  }
}
