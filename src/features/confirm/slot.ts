import type { Call } from '../../core/call.ts'
import { isObject } from '../../core/json.ts'

/** The slot of a call's state in which is kept what was asked, or that it was granted. */
export const STATE_KEY = 'confirm'

/** That a call may run: who said so, and how. */
export interface Grant {
  readonly approval: string
  readonly by: readonly string[]
  readonly via: readonly string[]
  /** In milliseconds since 1970. */
  readonly at: number
}

/** What this layer wrote into the state: that it asked, that it named a page, or that the call may run. */
export type ConfirmState =
  | { readonly kind: 'asked'; readonly nonce: string; readonly digest: string; readonly until: number }
  | { readonly kind: 'opened'; readonly approval: string; readonly digest: string }
  | { readonly kind: 'granted'; readonly nonce: string; readonly digest: string; readonly grant: Grant }

/** What this layer wrote into the state of a call. */
export function confirmStateOf({ requestState: state }: Call): ConfirmState | undefined {
  const slot = state[STATE_KEY]
  // What is in the state was written here: clients get it sealed.
  return isObject(slot) && typeof slot.kind === 'string' ? (slot as unknown as ConfirmState) : undefined
}

/** The same call as it is for the layers below: what was said to this one is not for them. */
export function withoutConfirmState(call: Call): Call {
  const { [STATE_KEY]: slot, ...state } = call.requestState
  if (slot === undefined) return call
  if (isObject(slot) && slot.kind === 'granted') return { ...call, requestState: state }
  const { inputResponses: _answers, ...rest } = call
  return { ...rest, requestState: state }
}
