/** Timeouts, pauses and aborts without leaks; and times as text. */
import { world } from '../world.ts'

/** The longest delay of a timer, in milliseconds: a longer one would fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** The value of a promise, unless the signal is aborted first. @throws the reason of the signal */
export function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
    // The promise is handled in any case: an unhandled rejection ends the process.
    passOn(promise, () => signal.removeEventListener('abort', stop), resolve, reject)
  })
}

/** The value of a promise, or `other` after a timeout. */
export function within<Value>(promise: Promise<Value>, timeoutMs: number, other: Value): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = world.setTimeout(resolve, timeoutMs, other).unref()
    passOn(promise, () => world.clearTimeout(timer), resolve, reject)
  })
}

/** The value of a promise; undefined if it is rejected, or pending after a timeout. */
export function ifAnswered<Value>(asked: Promise<Value>, timeoutMs: number): Promise<Value | undefined> {
  const answer: Promise<Value | undefined> = asked.catch(() => undefined)
  return within(answer, timeoutMs, undefined)
}

/** Waits for a time, or until the signal is aborted. @throws the reason of the signal */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      world.clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      if (signal?.aborted) reject(signal.reason)
      else resolve()
    }
    const timer = world.setTimeout(end, milliseconds).unref()
    signal?.addEventListener('abort', end)
    if (signal?.aborted) end()
  })
}

/** Settles another promise like this one. `finally` would create three more promises. */
function passOn<Value>(
  promise: Promise<Value>,
  free: () => void,
  resolve: (value: Value) => void,
  reject: (reason: unknown) => void,
): void {
  const fulfil = (value: Value): void => {
    free()
    resolve(value)
  }
  const fail = (reason: unknown): void => {
    free()
    reject(reason)
  }
  promise.then(fulfil, fail)
}

/** The result of `read`; an exception becomes a rejection. */
export function attempt<Value>(read: () => Value | Promise<Value>): Value | Promise<Value> {
  try {
    return read()
  } catch (error) {
    return Promise.reject(error)
  }
}

/** A time in milliseconds since 1970 as ISO 8601. Most requested times are in the same second, whose text is cached. */
export function isoTime(time: number): string {
  const second = Math.floor(time / 1000)
  if (second !== lastSecond) {
    lastText = new Date(second * 1000).toISOString().slice(0, 20)
    lastSecond = second
  }
  return `${lastText}${String(time - second * 1000).padStart(3, '0')}Z`
}

let lastSecond = Number.NaN
let lastText = ''
