/** Requests of the linter to a server: paginated lists, resources, prompts. */
import type { Handler } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { canonical, isObject } from '../core/json/json.ts'
import { type Fields, Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { ownCall } from '../protocol/lift.ts'
import { method } from '../protocol/methods.ts'

/** The response of a server. */
export type ServerAnswer =
  | { readonly result: Payload; readonly error?: undefined }
  | { readonly error: GatewayError; readonly result?: undefined }

/** Sends a request to a server. Never throws. */
type SendRequest = (method: string, params?: Fields) => Promise<ServerAnswer>

/** The timeout of one request, in milliseconds. */
const RESPONSE_TIMEOUT_MS = 10_000

/** Creates a function that sends requests to one server, as a client without capabilities. */
export function createSender(handle: Handler, { name: upstream }: UpstreamSettings): SendRequest {
  return async (name, fields = {}) => {
    const { nameIn } = method(name)
    const subject = nameIn === undefined ? undefined : fields[nameIn]
    const controller = new AbortController()
    const late = new GatewayError(
      'OPERATION_TIMEOUT',
      `It did not respond within ${RESPONSE_TIMEOUT_MS / 1000} seconds.`,
    )
    const timer = setTimeout(() => controller.abort(late), RESPONSE_TIMEOUT_MS)
    try {
      const call = ownCall({
        method: name,
        params: Payload.of(fields),
        target: { method: name, upstream, ...(typeof subject === 'string' && { name: subject }) },
        signal: controller.signal,
        abort: (reason) => controller.abort(reason),
      })
      const outcome = await handle({ ...call, client: { ...call.client, nonInteractive: true } })
      if (outcome.kind === 'result') return { result: outcome.result }
      return { error: new GatewayError('UPSTREAM_ERROR', 'It responded with an input request.') }
    } catch (error) {
      return { error: controller.signal.aborted ? late : asGatewayError(error) }
    } finally {
      clearTimeout(timer)
    }
  }
}

/** An error as evidence. */
export function errorText({ rpc, message }: GatewayError): string {
  return `${rpc} ${message.slice(0, 120)}`
}

/** The list methods. */
export const listMethods = [
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
] as const
export type ListMethod = (typeof listMethods)[number]

/** A list of a server. */
export interface List {
  readonly items: readonly unknown[]
  /** The number of entries of each page. */
  readonly pages: readonly number[]
  /** Whether two reads returned the same entries in the same order. */
  readonly isStable: boolean
  readonly error?: GatewayError
}

/** The maximum number of pages, for a server whose list never ends. */
const MAX_PAGES = 100

/** Reads all pages of a list, twice. */
export async function readList(send: SendRequest, name: ListMethod): Promise<List> {
  const first = await readPages(send, name)
  if (first.error) return { ...first, isStable: true }
  const second = await readPages(send, name)
  return { ...first, isStable: namesOf(first.items) === namesOf(second.items) }
}

async function readPages(send: SendRequest, name: ListMethod): Promise<Omit<List, 'isStable'>> {
  const items: unknown[] = []
  const pages: number[] = []
  let cursor: unknown
  while (pages.length < MAX_PAGES) {
    const { result, error } = await send(name, cursor === undefined ? {} : { cursor })
    if (error) return { items, pages, error }
    const found = result.fields[method(name).list ?? '']
    const page: readonly unknown[] = Array.isArray(found) ? found : []
    items.push(...page)
    pages.push(page.length)
    cursor = result.fields.nextCursor
    if (typeof cursor !== 'string') break
  }
  return { items, pages }
}

function namesOf(items: readonly unknown[]): string {
  return canonical(items.map((each) => (isObject(each) ? (each.uri ?? each.uriTemplate ?? each.name) : each)))
}

/** The result of reading a resource. */
export interface Reading {
  readonly uri: string
  /** The type in the list. */
  readonly listed: unknown
  /** The `contents` of the response, unvalidated. */
  readonly contents?: unknown
  readonly error?: GatewayError
}

/** A prompt that was fetched. */
export interface Fetched {
  readonly name: string
  readonly error?: GatewayError
}

/** How many resources are read, and the maximum declared size, in bytes. */
const most = { reads: 8, size: 1_000_000 }

/** Reads the first few resources. */
export async function readResources(
  send: SendRequest,
  resources: readonly Fields[],
): Promise<readonly Reading[]> {
  const small = resources.filter(({ size }) => typeof size !== 'number' || size <= most.size)
  const readings: Reading[] = []
  for (const { uri, mimeType } of small.slice(0, most.reads)) {
    if (typeof uri !== 'string') continue
    const { result, error } = await send('resources/read', { uri })
    const found = error ? { error } : { contents: result.fields.contents }
    readings.push({ uri, listed: mimeType, ...found })
  }
  return readings
}

/** Fetches the first prompt without required arguments; undefined if there is none. */
export async function fetchPrompt(
  send: SendRequest,
  prompts: readonly Fields[],
): Promise<Fetched | undefined> {
  const plain = prompts.find((prompt) => typeof prompt.name === 'string' && !needsArguments(prompt))
  if (!plain) return undefined
  const name = String(plain.name)
  const { error } = await send('prompts/get', { name })
  return { name, ...(error && { error }) }
}

function needsArguments({ arguments: given }: Fields): boolean {
  if (given === undefined) return false
  return !Array.isArray(given) || given.some((each) => isObject(each) && each.required === true)
}
