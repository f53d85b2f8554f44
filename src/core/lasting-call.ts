/** What layers say of a call that may last: its deadline, and whether it outlives its request. */
import { Slot } from './slot.ts'

/** The deadline of a call. */
export interface CallDeadline {
  /** Pauses it while the call waits for a person; the returned function resumes it. */
  pause(): () => void
  /** Restarts the timeout: the server has responded, and the call makes another request to it. */
  renew(): void
}

export const deadlineSlot = new Slot<CallDeadline>('deadline')

/** Has the call go on when its client disconnects or its session ends; absent where no client can be lost. */
export const retainSlot = new Slot<() => void>('retain')

/** Whether the call has no request any more, so that its server may be silent; set where calls can become tasks. */
export const detachedSlot = new Slot<() => boolean>('detached')

/** Whether a server may answer the call with a task: a layer above follows it. */
export const acceptsTaskSlot = new Slot<true>('accepts task')
