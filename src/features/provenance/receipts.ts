/** Signs a receipt of a result on request. */
import { world } from '../../core/world.ts'
import { asSent } from '../../protocol/projection.ts'
import { isAnswer } from '../../core/failure.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { dryRunSlot } from '../../core/dry-run.ts'
import { invalidParam } from '../../core/error.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { asObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import {
  argumentsHash,
  contentHash,
  principalHash,
  type Receipt,
  RECEIPT_KEY,
} from '../../records/receipts.ts'
import {
  extensionOf,
  hasExtension,
  KEYS_PATH,
  PROVENANCE_KEY,
  withoutExtension,
} from '../../protocol/meta-keys.ts'
import type { Feature, Services } from '../feature.ts'
import { ownStamp } from './stamp.ts'
import { receiptsSchema } from '../settings/admit.ts'

type Deps = Pick<Services, 'log' | 'invoker' | 'identity' | 'pages' | 'features'>

/** The value that requests a receipt. */
const FLAG = 'receipt'

/** Signs results on request, so that third parties can verify later what the server returned. */
export const receipts: Feature<Record<never, never>> = {
  ...receiptsSchema,
  create: (_settings, deps) => ({
    calls: {
      middleware: ({ upstream, method, isBuiltin }) => {
        if (isBuiltin || upstream === undefined) return undefined
        if (method !== 'tools/call' && method !== 'resources/read') return undefined
        return (next) => (call) => {
          if (!hasExtension(call, FLAG)) return next(call)
          return withReceipt(call, next, upstream, deps)
        }
      },
      dryRun: 'same', // a receipt says that it is of a dry run
    },
    builtins: {
      // Without pages, the keys are only available in the store.
      extensions: () => ({
        [RECEIPT_KEY]: { alg: 'ES256', ...(deps.pages.url(KEYS_PATH) !== undefined && { jwks: KEYS_PATH }) },
      }),
    },
  }),
}

/** Servers do not see the request for a receipt. @throws INVALID_INPUT */
async function withReceipt(given: Call, next: Handler, server: string, deps: Deps): Promise<Outcome> {
  const isRequested = extensionOf(given, FLAG)
  if (typeof isRequested === 'boolean') {
    const call = withoutExtension(given, FLAG)
    const isStamped = isRequested && deps.features.isOn('provenance', server)
    const outcome = await next(isStamped ? { ...call, meta: { ...call.meta, [PROVENANCE_KEY]: true } } : call)
    return isRequested ? signReceipt(outcome, call, server, deps) : outcome
  }
  throw invalidParam(FLAG, 'must be true or false')
}

async function signReceipt(outcome: Outcome, call: Call, server: string, deps: Deps): Promise<Outcome> {
  if (outcome.kind !== 'result' || !isAnswer(outcome.result)) return outcome
  const { result } = outcome
  // Without a stamp of the gateway, the server's own claim would be signed.
  const stamp = deps.features.isOn('provenance', server) ? ownStamp(result) : undefined
  const claims = claimsOf(asSent(result, call), call, server, stamp)
  // The effect has happened: the result is returned even if it cannot be signed.
  const receipt = await deps.identity.sign({ ...claims }).catch((error: unknown) => {
    deps.log.error('receipt.unsigned', { reason: String(error) })
  })
  return receipt === undefined
    ? outcome
    : { kind: 'result', result: result.withMeta({ [RECEIPT_KEY]: receipt }) }
}

function claimsOf(
  result: Payload,
  call: Call,
  server: string,
  stamp: Readonly<Record<string, unknown>> | undefined,
): Receipt {
  const { name, uri, arguments: given } = call.params.fields
  const wasReplay = call.logFields.get('replayed') === true
  const retrievedAt = stamp?.retrieved_at ?? (wasReplay ? undefined : isoTime(world.now()))
  const approval = call.logFields.get('approval')
  const [used, kept] = [call.logFields.get('references_used'), call.logFields.get('references')]
  return {
    receipt: 1,
    ...(call.method === 'tools/call' ? { tool: String(name) } : { uri: String(uri) }),
    server,
    principal: principalHash(call.principal.id),
    arguments_sha256: argumentsHash(asObject(given)),
    content_sha256: contentHash(result),
    ...(typeof retrievedAt === 'string' && { retrieved_at: retrievedAt }),
    was_replay: wasReplay,
    ...(dryRunSlot.of(call) && { dry_run: true }),
    ...(typeof approval === 'string' && { approval }),
    ...(Array.isArray(used) && { references_used: used }),
    ...(Array.isArray(kept) && { references: kept }),
  }
}
