/**
 * Input for a call without a request: its input requests are kept in the record of the operation, until responses to all
 * of them are there too. Any process that shares the store can take the responses.
 */
import type { InputRequest, InputRequests, InputResponses, Outcome } from '../../core/call.ts'
import { pause } from '../../core/time/waiting.ts'
import type { OperationRecord, StoredOperation } from '../../records/operations.ts'
import type { RunningCall } from './running-call.ts'

/** How long a call waits for its input, and how often other processes are looked at meanwhile, in milliseconds. */
const INPUT_TIMEOUT_MS = 600_000
const POLL_INTERVAL_MS = 1000

interface Options {
  /** Counts the rounds of the call from 1 on. */
  readonly round: number
  find(key: string): Promise<StoredOperation | undefined>
  /** Changes the record, unless it has ended. */
  change(key: string, change: (before: OperationRecord) => OperationRecord): Promise<unknown>
}

/** Waits for the responses to the input requests of an operation; those that do not come in time are left out. @throws why the call was aborted */
export async function requestInput(
  running: RunningCall,
  { inputRequests, requestState, withdrawn }: Extract<Outcome, { kind: 'input_required' }>,
  options: Options,
): Promise<InputResponses> {
  const { operation } = running
  if (!operation) throw new TypeError('only an operation can wait for input')
  const { round, change } = options
  // A process that takes a call up counts its rounds anew.
  const prefix = running.call.operation ? `${running.startedAt.toString(36)}.${round}` : `${round}`
  const { requests, originals } = uniqueKeys(inputRequests, prefix)
  await change(operation.key, (before) => ({
    ...before,
    state: 'input_required',
    input: { round, requests, responses: {} },
    ...(before.request && { request: { ...before.request, requestState } }),
  }))
  const responses = await responsesTo(running, operation.key, { ...options, withdrawn })
  return Object.fromEntries(
    Object.entries(responses).flatMap(([key, response]) => {
      const original = originals.get(key)
      return original === undefined ? [] : [[original, response]]
    }),
  )
}

/** The responses of one round, once all of them are there, or none is wanted any more. */
async function responsesTo(
  running: RunningCall,
  key: string,
  { withdrawn, find, change }: Options & { readonly withdrawn: AbortSignal | undefined },
): Promise<InputResponses> {
  const { signal } = running.call
  const until = Date.now() + INPUT_TIMEOUT_MS
  const stop = (): void => running.wake()
  withdrawn?.addEventListener('abort', stop)
  signal.addEventListener('abort', stop)
  try {
    for (;;) {
      const changed = running.changed()
      const { requests = {}, responses = {} } = (await find(key))?.record.input ?? {}
      signal.throwIfAborted()
      const isComplete = Object.keys(requests).every((each) => Object.hasOwn(responses, each))
      if (isComplete || withdrawn?.aborted || Date.now() > until) {
        await change(key, ({ input: _input, ...before }) => ({ ...before, state: 'working' }))
        return responses
      }
      await Promise.race([changed, pause(POLL_INTERVAL_MS)])
    }
  } finally {
    withdrawn?.removeEventListener('abort', stop)
    signal.removeEventListener('abort', stop)
  }
}

/** Input requests under keys that no other round of the operation has, and the keys they had. */
function uniqueKeys(
  inputRequests: InputRequests,
  prefix: string,
): { readonly requests: Record<string, InputRequest>; readonly originals: ReadonlyMap<string, string> } {
  const originals = new Map<string, string>()
  const requests: Record<string, InputRequest> = {}
  for (const [key, request] of Object.entries(inputRequests)) {
    const unique = `${prefix}.${key}`
    originals.set(unique, key)
    requests[unique] = request
  }
  return { requests, originals }
}
