/** Repeats calls that were not sent, or that are idempotent, after passing failures. */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { asCalled } from '../core/judgement/judge.ts'
import { settingOf } from '../core/settings.ts'
import { pause } from '../core/time/waiting.ts'
import { method as known } from '../protocol/methods.ts'
import type { Feature } from './feature.ts'
import type { Services } from './feature.ts'

interface Settings {
  readonly attempts: number
}

/** How long to wait before the first further attempt, at most, in milliseconds; each one waits twice as long. */
const FIRST_DELAY_MS = 200

/**
 * Makes a call again that was not sent to its server, where doing it twice would be harmless besides. A call that
 * may have run is never made again.
 */
export const retry: Feature<Settings> = {
  name: 'retry',
  place: 'features',
  schema: {
    type: 'object',
    properties: {
      attempts: {
        type: 'integer',
        minimum: 0,
        maximum: 5,
        default: 2,
        errorMessage: 'must be a number from 0 to 5',
        description:
          'How often a call that could not be sent to its server is tried again, where it only reads or is idempotent.',
      },
    },
  },
  create: (settings, deps) => ({
    middleware: ({ upstream, method, name }) => {
      const { nameIn, list } = known(method)
      if (upstream === undefined || (nameIn === undefined && list === undefined)) return undefined
      const tools = deps.servers.settings(upstream)?.tools
      const isTool = method === 'tools/call' && name !== undefined && tools !== undefined
      const own = isTool ? settingOf(tools, name, 'retry')?.value : undefined
      const attempts = own ?? settings(upstream).attempts
      if (attempts === 0) return undefined
      return (next) => (call) =>
        next(call).catch((error: unknown) => tryAgain(error, { call, next, attempts, deps }))
    },
  }),
}

type Deps = Pick<Services, 'servers'>

interface Attempt {
  readonly call: Call
  readonly next: Handler
  readonly attempts: number
  readonly deps: Deps
}

async function tryAgain(first: unknown, { call, next, attempts, deps }: Attempt): Promise<Outcome> {
  let failure = first
  for (let attempt = 1; attempt <= attempts && isUnsent(failure) && !call.inputResponses; attempt++) {
    await pause(FIRST_DELAY_MS * 2 ** (attempt - 1) * (0.5 + Math.random() / 2), call.signal).catch(
      () => undefined,
    )
    if (call.signal.aborted) break
    const again = await resolved(call, deps)
    if (!again) continue
    if (!isRepeatable(again)) break
    call.logFields.set('retries', attempt)
    try {
      return await next(again)
    } catch (error) {
      failure = error
    }
  }
  throw failure
}

/** Where the server says when to come back, that is for the caller to know. */
function isUnsent(error: unknown): boolean {
  if (!(error instanceof GatewayError) || error.code !== 'SERVER_UNAVAILABLE') return false
  return error.extra.isUnsent === true && error.extra.retryAfterSeconds === undefined
}

/**
 * The call with its tool. Where the list could not be had before, it is asked for again, which is an attempt to reach
 * the server as well: nothing where that fails too.
 */
async function resolved(call: Call, { servers }: Deps): Promise<Call | undefined> {
  if (call.toolError === undefined) return call
  try {
    return { ...call, tool: await servers.tool(call), toolError: undefined }
  } catch {
    return undefined
  }
}

function isRepeatable(call: Call): boolean {
  if (call.method !== 'tools/call') return true
  const classification = call.tool && asCalled(call.tool, call).classification
  return classification !== undefined && (classification.op === 'read' || classification.idempotent)
}
