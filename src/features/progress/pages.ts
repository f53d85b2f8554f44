/**
 * Operations whose pages were collected (the feature `stream`): their record keeps the request, so that the id and a
 * checkpoint token are enough to get the remaining pages.
 */
import type { Call, Outcome } from '../../core/call.ts'
import { invalidParam } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { STREAM_KEY } from '../../protocol/meta-keys.ts'
import type { OperationRecord, OperationRequest } from '../../records/operations.ts'
import type { Services } from '../feature.ts'

/** What the record of an ended operation keeps of its request: tool and arguments, if its pages were collected. */
export function keptRequest(
  request: OperationRequest | undefined,
  result: Payload | undefined,
): Pick<OperationRecord, 'request'> {
  if (!request || result?.meta(STREAM_KEY) === undefined) return {}
  return { request: { ...request, params: request.params.with({ _meta: undefined }), meta: {} } }
}

/** Makes the call of an operation again from a checkpoint on, for the caller who resumes it. @throws what the call fails with */
export function remainingPages(
  call: Call,
  { request, upstream, tool }: OperationRecord,
  { token, invoker }: { readonly token: unknown } & Pick<Services, 'invoker'>,
): Promise<Outcome> | undefined {
  if (!request) return undefined
  if (typeof token !== 'string') throw invalidParam('checkpoint_token', 'must be a string')
  const { inputResponses: _responses, ...rest } = call
  const meta = { ...call.meta, [STREAM_KEY]: { checkpoint_token: token } }
  const target = { upstream, method: 'tools/call', name: tool }
  const params = request.params.with({ _meta: Payload.of(meta) })
  return invoker.relay({ ...rest, method: target.method, target, params, meta, requestState: {} })
}
