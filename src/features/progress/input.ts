/**
 * Input for a call without a request: its input requests are kept in the record of the operation, until responses to all
 * of them are there too. Any process that shares the store can take the responses.
 */
import { world } from '../../core/world.ts'
import type { InputRequest, InputRequests, InputResponses, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { pause } from '../../core/time/waiting.ts'
import { type OperationRecord, type StoredOperation, operationSlot } from '../../records/operations.ts'
import type { OperationJournal } from './journal.ts'
import type { RunningCall } from './running-call.ts'

/** How long a call waits for its input, and how often the record is read meanwhile, in milliseconds. */
const INPUT_TIMEOUT_MS = 600_000
const POLL_INTERVAL_MS = 1000
/** How many input requests a task may have at once. */
const MAX_REQUESTS = 100
/** How long all requests of a task, and all responses to them, may be together, in characters. */
export const MAX_INPUT_LENGTH = 1024 ** 2

/** Waits for the responses to the input requests of one round of an operation, counted from 1 on; late ones are left out. @throws the reason of the abort */
export async function awaitInput(
  running: RunningCall,
  { inputRequests, requestState, withdrawn, isOpen }: Extract<Outcome, { kind: 'input_required' }>,
  round: number,
  journal: OperationJournal,
): Promise<InputResponses> {
  const { operation } = running
  if (!operation) throw new TypeError('only an operation can wait for input')
  requireWithinLimits(inputRequests)
  const until = world.now() + INPUT_TIMEOUT_MS
  // A process that takes a call up counts its rounds anew.
  const prefix = operationSlot.of(running.call) ? `${running.startedAt.toString(36)}.${round}` : `${round}`
  const { requests, originals } = uniqueKeys(inputRequests, prefix)
  const { key: recordKey } = operation
  const change = (write: (before: OperationRecord) => OperationRecord): Promise<unknown> =>
    insist(() => journal.changeOwn(recordKey, write), running, until)
  await change((before) => ({
    ...before,
    state: 'input_required',
    input: { round, requests, responses: {}, ...(isOpen && { isOpen }) },
    ...(before.request && { request: { ...before.request, requestState } }),
  }))
  const find = () => insist(() => journal.operations.find(recordKey), running, until)
  const responses = await responsesTo(running, find, until, withdrawn)
  await change(({ input: _input, ...before }) => ({ ...before, state: 'working' }))
  return Object.fromEntries(
    Object.entries(responses).flatMap(([key, response]) => {
      const original = originals.get(key)
      return original === undefined ? [] : [[original, response]]
    }),
  )
}

/** The responses of one round, once all of them are there, the requests are withdrawn, or it takes too long. */
async function responsesTo(
  running: RunningCall,
  find: () => Promise<StoredOperation | undefined>,
  until: number,
  withdrawn: AbortSignal | undefined,
): Promise<InputResponses> {
  const { signal } = running.call
  const stop = (): void => running.wake()
  withdrawn?.addEventListener('abort', stop)
  signal.addEventListener('abort', stop)
  try {
    for (;;) {
      const changed = running.changed()
      const { requests = {}, responses = {} } = (await find())?.record.input ?? {}
      signal.throwIfAborted()
      const isComplete = Object.keys(requests).every((each) => Object.hasOwn(responses, each))
      if (isComplete || withdrawn?.aborted || world.now() > until) return responses
      await Promise.race([changed, pause(POLL_INTERVAL_MS)])
    }
  } finally {
    withdrawn?.removeEventListener('abort', stop)
    signal.removeEventListener('abort', stop)
  }
}

/** Retries an access to the store until it succeeds: an unavailable store does not end a call. @throws the last error at the end */
async function insist<Value>(ask: () => Promise<Value>, running: RunningCall, until: number): Promise<Value> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (world.now() > until) throw error
      await pause(POLL_INTERVAL_MS, running.call.signal)
    }
  }
}

/** @throws UPSTREAM_ERROR if a server requests more input than a record can hold */
function requireWithinLimits(inputRequests: InputRequests): void {
  const requests = Object.entries(inputRequests)
  const length = requests.reduce((sum, [key, { params }]) => sum + key.length + (params?.text.length ?? 0), 0)
  if (requests.length <= MAX_REQUESTS && length <= MAX_INPUT_LENGTH) return
  throw new GatewayError('UPSTREAM_ERROR', 'The server asks for too much input at once.')
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
