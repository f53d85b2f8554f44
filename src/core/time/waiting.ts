/** Waiting: deadlines, pauses and aborts without leaks; and times as text. */

/** The longest time a timer can hold, in milliseconds: a longer one would end at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** What a promise resolves with, unless the signal is aborted before. @throws the reason of the signal */
export function untilAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
    // Listened to in any case: an unhandled rejection ends the process.
    passOn(promise, () => signal.removeEventListener('abort', stop), resolve, reject)
  })
}

/** What a promise resolves with, or the other value where that takes longer than so many milliseconds. */
export function within<Value>(promise: Promise<Value>, timeoutMs: number, other: Value): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, timeoutMs, other).unref()
    passOn(promise, () => clearTimeout(timer), resolve, reject)
  })
}

/** Waits for so many milliseconds, or until the signal is aborted. @throws the reason of the signal */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      if (signal?.aborted) reject(signal.reason)
      else resolve()
    }
    const timer = setTimeout(end, milliseconds).unref()
    signal?.addEventListener('abort', end)
    if (signal?.aborted) end()
  })
}

/** Has a promise settle another one. `finally` makes three more of them to do the same. */
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

/** What reading gives, as a rejection too where it throws. */
export function attempt<Value>(read: () => Value | Promise<Value>): Value | Promise<Value> {
  try {
    return read()
  } catch (error) {
    return Promise.reject(error)
  }
}

/** A time in milliseconds since 1970 as ISO 8601. Most that are asked for share a second, and its text. */
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
