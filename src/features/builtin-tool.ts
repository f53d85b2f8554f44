/** Tools and methods of the gateway itself: one result in both forms. */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { asGatewayError, GatewayError, invalidParam } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { ERROR_KEY } from '../protocol/meta-keys.ts'
import type { BuiltinTool, Page } from './feature.ts'

/** The JSON Schema of an object with these members, some of which are required. */
export function objectSchema<const Properties>(required: readonly string[], properties: Properties) {
  return { type: 'object', properties, ...(required.length > 0 && { required }) } as const
}

/** Exposes a method of the gateway as a tool: the arguments are its parameters, and failures are results. */
export function asTool(definition: BuiltinTool['definition'], answer: Handler): BuiltinTool {
  return asToolWithResult(definition, async (call) => {
    const outcome = await answer(call)
    if (outcome.kind !== 'result') return outcome
    const { text, value } = outcome.result
    return answered({ content: [{ type: 'text', text }], structuredContent: value })
  })
}

/**
 * The same for a method whose result is that of a tool already. The members of its structured content are also beside it,
 * where clients of the extension proposals look for them.
 */
export function asToolWithResult(definition: BuiltinTool['definition'], answer: Handler): BuiltinTool {
  return asRelayingTool(definition, async (call) => {
    const outcome = await answer(call)
    if (outcome.kind !== 'result') return outcome
    const { result } = outcome
    return { kind: 'result', result: result.with(spread(result.member('structuredContent'))) }
  })
}

/** The same for a method whose result can be that of another tool, which stays as it is. */
export function asRelayingTool(definition: BuiltinTool['definition'], answer: Handler): BuiltinTool {
  return {
    definition,
    handle: async (call) => {
      const args = call.params.at('arguments') ?? Payload.of({})
      try {
        if (!isObject(args.value)) throw new GatewayError('INVALID_INPUT', 'Arguments must be an object.')
        return await answer({ ...call, params: args })
      } catch (thrown) {
        return answered(errorResult(asGatewayError(thrown), call))
      }
    },
  }
}

/** The members of a value that mean nothing else in the result of a tool. */
export function spread(value: unknown): Readonly<Record<string, unknown>> {
  const members = isObject(value) ? Object.entries(value) : []
  return Object.fromEntries(members.filter(([name]) => !resultMembers.has(name)))
}

/** What the revisions define in the result of a tool, and what the gateway answers with it. */
const resultMembers: ReadonlySet<string> = new Set([
  'content',
  'structuredContent',
  'isError',
  '_meta',
  'resultType',
  'inputRequests',
  'requestState',
  'task',
])

/** A failure as the result of a tool, in words for models. */
export function errorResult(
  error: GatewayError,
  { requestId }: Pick<Call, 'requestId'>,
): Record<string, unknown> {
  const { suggestion } = error.extra
  const object = { ...error.data, requestId }
  const text = suggestion === undefined ? error.message : `${error.message} ${suggestion}`
  return {
    content: [{ type: 'text', text }],
    isError: true,
    error: object,
    _meta: { [ERROR_KEY]: object },
  }
}

/** A result of the gateway itself. */
export function answered(result: Readonly<Record<string, unknown>>): Answered {
  return { kind: 'result', result: Payload.of(result) }
}

/** The same for a page, with checked members. */
export function pageOf(page: Page): Answered {
  return answered({ ...page })
}

/** A page of JSON, which may be cached for some seconds. */
export function jsonPage(value: unknown, maxAge: number, more: Partial<Page> = {}): Answered {
  return pageOf({ text: JSON.stringify(value), type: 'application/json', maxAge, ...more })
}

/** The outcome of a request that the gateway answers itself. */
export type Answered = Extract<Outcome, { readonly kind: 'result' }>

/**
 * The page of a list that a call requests by its cursor, and the cursor of the next one, if there is more.
 * @throws INVALID_INPUT for a cursor that is not one of the method, and what `list` throws
 */
export async function pageOfList<Item>(
  { params }: Call,
  method: string,
  size: number,
  list: () => Promise<readonly Item[]>,
): Promise<{ readonly page: readonly Item[]; readonly nextCursor?: string }> {
  const { cursor = null } = params.fields
  if (cursor !== null && (typeof cursor !== 'string' || !/^\d{1,9}$/.test(cursor)))
    throw new GatewayError('INVALID_INPUT', `Invalid params: the cursor is not one of ${method}.`, {
      field: 'cursor',
      reason: 'unknown',
    })
  const start = Number(cursor ?? 0)
  const all = await list()
  const next = start + size
  return { page: all.slice(start, next), ...(next < all.length && { nextCursor: String(next) }) }
}

/** A text among the arguments, if it is there. @throws INVALID_INPUT */
export function optionalText({ params }: Call, name: string): string | undefined {
  const value = params.fields[name]
  if (value === undefined || (typeof value === 'string' && value !== '')) return value
  throw invalidParam(name, 'must be a text')
}

/** A positive integer among the arguments, if it is there. @throws INVALID_INPUT */
export function positiveInteger({ params }: Call, name: string): number | undefined {
  const value = params.fields[name]
  if (value === undefined || (typeof value === 'number' && Number.isInteger(value) && value > 0)) return value
  throw invalidParam(name, 'must be a positive integer')
}
