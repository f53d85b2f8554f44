/** Fetches a JSON object from a URL, with limits on time and size: keys, metadata, registries. */
import { type Dispatcher, ProxyAgent, request } from 'undici'
import { isObject } from '../../core/json/json.ts'
import { type FindProxy, proxyOptions } from '../../core/proxy.ts'
import { decodedText } from '../../protocol/content-coding.ts'
import { isLoopback } from './origin.ts'
import { parseJson } from '../../core/json/read.ts'

/** The timeout in milliseconds, and the maximum size in bytes. */
const RESPONSE_TIMEOUT_MS = 5000
const MAX_RESPONSE_BYTES = 256 * 1024

type Json = Readonly<Record<string, unknown>>

interface Request {
  readonly method?: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** A response with another status than 200. */
export class StatusError extends Error {
  override readonly name = 'StatusError'
  readonly status: number

  constructor(url: string, status: number) {
    super(`${url} answered ${status}`)
    this.status = status
  }
}

/** Fetches a JSON object from exactly this URL, with limits on time and size. @throws if that fails */
export async function fetchJson(url: string, proxies: FindProxy, sent: Request = {}): Promise<Json> {
  const parsed = new URL(url)
  if (parsed.protocol !== 'https:' && !isLoopback(parsed.hostname)) throw new Error(`${url} is not https`)
  const proxy = proxies(parsed)
  if (!proxy) return read(url, sent)
  const agent = new ProxyAgent(proxyOptions(proxy))
  try {
    return await read(url, sent, agent)
  } finally {
    await agent.destroy()
  }
}

async function read(
  url: string,
  { method = 'GET', headers, body }: Request,
  dispatcher?: Dispatcher,
): Promise<Json> {
  const response = await request(url, {
    method,
    headers: { accept: 'application/json', ...headers },
    ...(body !== undefined && { body }),
    signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
    ...(dispatcher && { dispatcher }),
  })
  // An aborted body emits another error.
  response.body.on('error', () => undefined)
  // Redirects are not followed: only the configured URL is trusted.
  if (response.statusCode !== 200) {
    response.body.destroy()
    throw new StatusError(url, response.statusCode)
  }
  const coding = response.headers['content-encoding']
  const text = await decodedText(response.body, coding, MAX_RESPONSE_BYTES)
  if (text === undefined) throw new Error(`${url} answered with more than ${MAX_RESPONSE_BYTES} bytes`)
  const value = jsonOf(text)
  if (!isObject(value)) throw new Error(`${url} did not answer with an object`)
  return value
}

/** Errors of JSON.parse quote the text, which may contain a token. */
function jsonOf(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}
