/** A check of the suite: what it is about, and how it finds out. */
import { isObject, isSame } from '../../core/json/json.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Endpoint } from './client.ts'
import type { EchoServer, Received } from './echo-server.ts'

/** The categories of the proposal. */
type Category = 'manifest' | 'error_handling' | 'idempotency' | 'permissions' | 'streaming' | 'transactions'

/** One check. */
export interface Check {
  /** Public and stable. */
  readonly test_id: string
  /** The proposal that it is about, such as `proposal-5`. */
  readonly proposal_ref: string
  readonly category: Category
  /** What has to be true. */
  readonly description: string
  /** The features without which it does not apply. */
  readonly needs?: readonly string[]
  /** @throws CheckFailure if it is not true, Skip if it does not apply; anything else if it cannot be found out */
  run(context: Context): Promise<void>
}

/** A check as it is written; the number of its proposal begins its own one, but for the seven of the proposals. */
type Definition = Partial<Check> & Pick<Check, 'test_id' | 'description' | 'run'>

/** The checks of one subject, with what all of them have in common. */
export function checksOf(
  common: Pick<Check, 'category' | 'needs'>,
  definitions: readonly Definition[],
): readonly Check[] {
  return definitions.map((each) => {
    return { proposal_ref: `proposal-${Number(each.test_id.slice(5, 7))}`, ...common, ...each }
  })
}

/** What checks use. */
export interface Context {
  /** The server under test, by its name. */
  readonly name: string
  readonly server: Endpoint
  /** What `tools/list` returns at the address of the server. */
  readonly listing: Listing
  /** The entries of it that are tools of the server, and not of the gateway itself. */
  readonly tools: readonly Fields[]
  /** Those that only read, by the hint of the server and by the gateway's own judgement. */
  readonly readers: readonly Fields[]
  /** The arguments of tools that the configuration permits the run to use, by tool. */
  readonly calls: Readonly<Record<string, Fields>>
  /** Whether tools of the server that change something may be called. */
  readonly withWrites: boolean
  /** The built-in server, with the settings of the one under test. */
  readonly echo: EchoServer
  readonly echoName: string
  readonly ours: Endpoint
  /** The built-in server for a second caller, and for one that may only read. */
  readonly theirs: Endpoint
  readonly reader: Endpoint
  /** The settings of a feature for the server; `false` if it is off. */
  settings(feature: string): unknown
  /** Whether the gateway's own tools can be used. */
  readonly hasTools: boolean
}

/** Something that has to be true is not. */
export class CheckFailure extends Error {}

/** A check does not apply; the message is the reason. */
export class Skip extends Error {}

/** @throws CheckFailure with this message if a condition does not hold */
export function expect(condition: boolean, message: string): asserts condition {
  if (!condition) throw new CheckFailure(message)
}

/** @throws CheckFailure if a value is not the expected one; `what` is its name */
export function expectSame(actual: unknown, expected: unknown, what: string): void {
  const [found, wanted] = [JSON.stringify(actual), JSON.stringify(expected)].map((text) => shown(text))
  expect(isSame(actual, expected), `${what} is ${found}, expected ${wanted}`)
}

/** @throws CheckFailure if another number of calls has reached the built-in server */
export function expectCalls(calls: readonly Received[], expected: number): void {
  expectSame(calls.length, expected, 'the number of calls that reached the server')
}

/** Whether a request ended with an error of JSON-RPC, or its tool failed. */
export function isFailed({ error, result }: Answer): boolean {
  return error !== undefined || result?.isError === true
}

/** The result of a request. @throws CheckFailure if it is an error */
export function resultOf(answer: Answer): Fields {
  const { error, result, status, text } = answer
  expect(error === undefined, `the request failed: ${shown(JSON.stringify(error))}`)
  expect(result !== undefined, `HTTP ${status} without a JSON-RPC result: ${shown(text)}`)
  return result
}

/** The result of a tool that succeeded. @throws CheckFailure */
export function successOf(answer: Answer): Fields {
  const result = resultOf(answer)
  expect(result.isError !== true, `the tool failed: ${shown(textOf(result))}`)
  expect(
    result.resultType === undefined || result.resultType === 'complete',
    `the result is ${shown(String(result.resultType))}, not complete`,
  )
  return result
}

/** The error object of a tool that failed, or of an error of JSON-RPC. @throws CheckFailure if it is none with this code */
export function failureOf(answer: Answer, code: string): Fields {
  const { error, result } = answer
  const object = objectAt(error, 'data') ?? objectAt(result, '_meta', ERROR_KEY)
  expect(object !== undefined, `there is no structured error: ${shown(answer.text)}`)
  expectSame(object.code, code, 'the code of the error')
  expect(
    error !== undefined || result?.isError === true,
    'the result has a structured error, but isError is not true',
  )
  return object
}

/** The object at a path of members; undefined if there is none. */
export function objectAt(value: unknown, ...path: readonly string[]): Fields | undefined {
  const found = path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), value)
  return isObject(found) ? found : undefined
}

/** The objects of a list. */
export function objectsIn(list: unknown): readonly Fields[] {
  return Array.isArray(list) ? list.filter(isObject) : []
}

/** The texts of a result. */
export function textOf(result: Fields): string {
  return objectsIn(result.content)
    .map(({ text }) => (typeof text === 'string' ? text : ''))
    .join('\n')
}

/** The longest value in a message, in characters. */
const MAX_SHOWN = 160

/** A value for a message. */
export function shown(text = 'nothing'): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN).toWellFormed()}…` : text
}

/**
 * Uses a function of the gateway itself: by its method if methods are on, else by its tool.
 * @throws Skip if both are off
 */
export async function ask(endpoint: Endpoint, method: string, tool: string, params: Fields): Promise<Answer> {
  if (endpoint.own === 'methods') return endpoint.send(method, params)
  if (endpoint.own === 'off') throw new Skip('meta_tools and methods are off')
  // The prefix is valid for every tool of the gateway, and needed where a server has one of the name.
  const answer = await endpoint.call(`gateway_${tool}`, params)
  const { result } = answer
  const structured = objectAt(result, 'structuredContent')
  return structured && result?.isError !== true ? { ...answer, result: structured } : answer
}

/** The tools at an address. */
interface Listing {
  readonly entries: readonly Fields[]
  /** Why the list is not what it has to be. */
  readonly problem?: string
}

/** How many pages are read. */
const MAX_PAGES = 200

/** Reads the list of tools. Never throws: a check reports what is wrong with it. */
export async function listTools(endpoint: Endpoint): Promise<Listing> {
  const entries: Fields[] = []
  let cursor: unknown
  try {
    for (let page = 0; page < MAX_PAGES; page++) {
      const { result, error, status } = await endpoint.send(
        'tools/list',
        cursor === undefined ? {} : { cursor },
      )
      if (error) return { entries, problem: `tools/list failed: ${String(error.message)}` }
      const tools = result?.tools
      if (!Array.isArray(tools))
        return { entries, problem: `tools/list returned no array of tools (HTTP ${status})` }
      if (!tools.every(isObject))
        return { entries: entries.concat(tools.filter(isObject)), problem: 'a listed tool is no object' }
      entries.push(...tools)
      cursor = result?.nextCursor
      if (cursor === undefined) return { entries }
    }
    return { entries, problem: `tools/list has more than ${MAX_PAGES} pages` }
  } catch (error) {
    return {
      entries,
      problem: `tools/list failed: ${error instanceof Error ? error.message : String(error)}`,
    }
  }
}

/** The tools of a listing that are not among those of the gateway itself. */
export function withoutOwn({ entries }: Listing, own: ReadonlySet<unknown>): readonly Fields[] {
  return entries.filter(
    ({ name }) => !own.has(name) && !(typeof name === 'string' && own.has(name.replace(/^gateway_/, ''))),
  )
}
