/** Retries calls that could not be sent to their server, if repeating them is harmless: lists, reads, idempotent calls. */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { asCalled } from '../core/judgement/call.ts'
import { type Backoff, delayBefore } from '../core/time/backoff.ts'
import { pause } from '../core/time/waiting.ts'
import { method as known } from '../protocol/methods.ts'
import { type Feature, type Services, toolSetting } from './feature.ts'
import { type RetrySettings, retrySchema } from './settings/upstream.ts'

const RETRIES: Backoff = { firstMs: 200, maxMs: Number.POSITIVE_INFINITY, jitter: 0.5 }

/**
 * Repeats calls that were not sent to their server, if they only read or are idempotent as well. A call that may have
 * been executed is never repeated.
 */
export const retry: Feature<RetrySettings> = {
  ...retrySchema,
  create: (settings, deps) => ({
    calls: {
      middleware: ({ upstream, method, name }) => {
        const { nameIn, list } = known(method)
        if (upstream === undefined || (nameIn === undefined && list === undefined)) return undefined
        const isTool = method === 'tools/call' && name !== undefined
        const toolAttempts = isTool ? toolSetting(deps, upstream, name, 'retry') : undefined
        const attempts = toolAttempts ?? settings(upstream).attempts
        if (attempts === 0) return undefined
        return (next) => (call) =>
          next(call).catch((error: unknown) => tryAgain(error, { call, next, attempts, deps }))
      },
      dryRun: 'absent',
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
    await pause(delayBefore(attempt - 1, RETRIES), call.signal).catch(() => undefined)
    if (call.signal.aborted) break
    const again = await resolveTool(call, deps)
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

/** If the server gives a retry time, the decision is left to the caller. */
function isUnsent(error: unknown): boolean {
  if (!(error instanceof GatewayError) || error.code !== 'SERVER_UNAVAILABLE') return false
  return error.extra.isUnsent === true && error.extra.retryAfterSeconds === undefined
}

/**
 * The call with its tool. If the tool list was unavailable, it is requested again, which also probes the server;
 * undefined if that fails.
 */
async function resolveTool(call: Call, { servers }: Deps): Promise<Call | undefined> {
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
