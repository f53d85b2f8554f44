interface Options {
  /** Also when the terminal is closed. What was started to outlive its terminal, with nohup, has none for its stderr. */
  readonly onHangUp: boolean
}

/** Resolves when the process is asked to stop; asked again, it ends at once. */
export function untilStopped({ onHangUp }: Options): Promise<void> {
  return new Promise((resolve) => {
    let isAsked = false
    const stop = (): void => {
      if (isAsked) process.exit(1)
      isAsked = true
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    if (onHangUp) process.on('SIGHUP', stop)
  })
}
