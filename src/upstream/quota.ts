import type { Quota } from '../core/record.ts'

/** What the answers of a server over HTTP say is left of its own limit. */
export class UpstreamQuota {
  #last: Quota | undefined

  /** Looks at the headers of an answer: `RateLimit-*`, `X-RateLimit-*`, or `RateLimit` in one. */
  read(header: (name: string) => string | undefined): void {
    const whole = header('ratelimit')
    const left = header('ratelimit-remaining') ?? header('x-ratelimit-remaining')
    if (whole === undefined && left === undefined) return
    const remaining = whole === undefined ? left : member(whole, /(?:^|[;,\s])(?:remaining|r)=(\d{1,15})/)
    if (remaining === undefined || !/^\d{1,15}$/.test(remaining)) return
    const reset =
      whole === undefined
        ? (header('ratelimit-reset') ?? header('x-ratelimit-reset'))
        : member(whole, /(?:^|[;,\s])(?:reset|t)=(\d{1,15})/)
    const resetsAt = timeOf(reset, Date.now())
    this.#last = { remaining: Number(remaining), ...(resetsAt !== undefined && { resetsAt }) }
  }

  /** What was said last; nothing once that is over. */
  get last(): Quota | undefined {
    const { resetsAt } = this.#last ?? {}
    return resetsAt !== undefined && resetsAt <= Date.now() ? undefined : this.#last
  }
}

function member(text: string, pattern: RegExp): string | undefined {
  return pattern.exec(text)?.[1]
}

/** Some tell how many seconds are left, others when it is, in seconds or milliseconds since 1970. */
function timeOf(text: string | undefined, now: number): number | undefined {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return undefined
  const value = Number(text)
  if (value > 1e12) return value
  return value > 1e9 ? value * 1000 : now + value * 1000
}
