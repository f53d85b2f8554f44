/** Resolves when the process is asked to stop; asked again, it ends at once. */
export function untilStopped(): Promise<void> {
  return new Promise((resolve) => {
    let isAsked = false
    const stop = (): void => {
      if (isAsked) process.exit(1)
      isAsked = true
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}
