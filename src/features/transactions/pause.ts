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
