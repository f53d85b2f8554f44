/** What commands of this machine ask a gateway: calls of tools, whose input requests their user answers, and the types of events. */
import { NS } from '../core/identity.ts'
import {
  type Call,
  type Handler,
  type InputRequest,
  type InputResponse,
  type Outcome,
  resultOf,
} from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { anonymous, type Principal } from '../core/principal.ts'
import { latestModern } from '../core/revisions.ts'
import { requestInputInline } from '../downstream/session/input-requests.ts'
import { isConfirmation } from '../features/confirm/elicitation.ts'
import { ownCall } from '../protocol/lift.ts'
import { DRY_RUN_KEY, IDEMPOTENCY_KEY } from '../protocol/meta-keys.ts'

/** A call of a tool, and how its input requests are answered. */
export interface CommandCall {
  readonly upstream: string
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly isDryRun: boolean
  readonly idempotencyKey?: string | undefined
  /** Answers the form of a confirmation of the gateway, or of a server. An error ends the call. */
  answer(request: InputRequest, of: 'gateway' | 'server'): Promise<InputResponse>
}

/** A call of a tool whose caller answers forms, unless it is a program. */
export function callByPerson(
  {
    upstream,
    tool,
    arguments: given,
    isDryRun,
    idempotencyKey,
  }: Omit<CommandCall, 'answer' | 'arguments'> & {
    readonly arguments: Payload
  },
  principal: Principal,
  isProgram = false,
): Call {
  const meta = {
    ...(isDryRun && { [DRY_RUN_KEY]: true }),
    ...(idempotencyKey !== undefined && { [`${NS}/${IDEMPOTENCY_KEY}`]: idempotencyKey }),
  }
  const method = 'tools/call'
  const params = Payload.of({ name: tool, _meta: meta }).with({ arguments: given })
  const target = { upstream, method, name: tool }
  const { client } = ownCall()
  return ownCall({
    method,
    params,
    target,
    meta,
    principal,
    rpcId: '1',
    client: { ...client, capabilities: isProgram ? {} : { elicitation: {} } },
  })
}

/** Makes a call, and resolves with the result. @throws what the call fails with */
export async function makeCommandCall(
  handle: Handler,
  { answer, ...order }: CommandCall,
  principal: Principal = anonymous,
): Promise<Payload> {
  const call = callByPerson({ ...order, arguments: Payload.of(order.arguments) }, principal)
  let last: Outcome | undefined
  const watched: Handler = async (each) => {
    last = await handle(each)
    return last
  }
  const outcome = await requestInputInline(watched, async (requests) => {
    const of = last?.kind === 'input_required' && isConfirmation(last) ? 'gateway' : 'server'
    const answers: Record<string, InputResponse> = {}
    // One at a time: there is one terminal.
    for (const [key, request] of Object.entries(requests)) answers[key] = await answer(request, of)
    return answers
  })(call)
  if (outcome.kind !== 'result') throw new TypeError('a call of a command ends with a result')
  return outcome.result
}

/** Whether a result is the report of a dry run. */
export function isDryRunReport(result: Payload): boolean {
  return result.meta(DRY_RUN_KEY) !== undefined
}

/** How many pages are read at most. */
const MAX_PAGES = 100

/**
 * The entries of `events/list` for a client of 2026-07-28 with every right, at the address of a server, or of all
 * servers; undefined if there is no such method. Only callers that authenticate have webhooks.
 * @throws what listing throws
 */
export async function listEventTypes(
  upstream: string | undefined,
  handle: Handler,
  isAuthenticated: boolean,
): Promise<readonly Payload[] | undefined> {
  const method = 'events/list'
  const target = { method, ...(upstream !== undefined && { upstream }) }
  const caller = isAuthenticated ? { principal: { id: 'command line' } } : {}
  const client = { ...ownCall().client, era: 'modern', revision: latestModern.name } as const
  const entries: Payload[] = []
  let cursor: unknown
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = Payload.of({ ...(cursor !== undefined && { cursor }) })
    const outcome = await handle(ownCall({ method, target, params, client, ...caller })).catch(
      (error: unknown) => {
        if (asGatewayError(error).code === 'UNSUPPORTED_OPERATION') return undefined
        throw error
      },
    )
    if (!outcome) return undefined
    const result = resultOf(outcome)
    entries.push(...(result.at('events')?.items ?? []))
    cursor = result.fields.nextCursor ?? undefined
    if (cursor === undefined) break
  }
  return entries
}
