/**
 * A load balancer as they are in front of real fleets: not sticky, with checks of health. A request that a gateway did not take goes to
 * another one. One that was sent is never sent again, and breaks for its client if its connection breaks.
 */
import type { IncomingMessage } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Seeded } from '../simulate/random.ts'
import { listening, relay } from './scattering-front.ts'
import type { HeaderMap } from './server/journal.ts'

interface Member {
  readonly origin: string
}

interface BalancerOptions {
  /** Decides which gateway gets a request. */
  readonly random: Seeded
  /** Headers of the requests that do not have them. */
  readonly headers: HeaderMap
  /** Learns what was answered, once the answer is over: its status and its text. */
  onAnswer(status: number, text: string): void
}

export interface Balancer {
  readonly origin: string
  close(): Promise<void>
}

/** How often the health of gateways is checked, how long one may take to answer, and how often it may fail to. */
const CHECK_INTERVAL_MS = 500
const CHECK_TIMEOUT_MS = 1000
const MAX_FAILURES = 2
/** The longest text of an answer that is looked at. */
const MAX_TEXT_LENGTH = 100_000

/** Balances between the members of a list, which may change. */
export async function openBalancer(
  members: readonly Member[],
  { random, headers, onAnswer }: BalancerOptions,
): Promise<Balancer> {
  const closing = new AbortController()
  const failures = new Map<string, number>()
  const isWell = ({ origin }: Member): boolean => (failures.get(origin) ?? 0) < MAX_FAILURES
  const check = async ({ origin }: Member): Promise<void> => {
    const signal = AbortSignal.timeout(CHECK_TIMEOUT_MS)
    const isAlive = await fetch(`${origin}/health`, { signal }).then(
      async (response) => (await response.text()) !== '' && response.ok,
      () => false,
    )
    failures.set(origin, isAlive ? 0 : (failures.get(origin) ?? 0) + 1)
  }
  const checking = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      await Promise.all(members.map(check))
      await pause(CHECK_INTERVAL_MS, undefined, { signal: closing.signal }).catch(() => undefined)
    }
  }
  const read = (answer: IncomingMessage): void => {
    let text = ''
    answer.on('data', (part: Buffer) => {
      if (text.length < MAX_TEXT_LENGTH) text += part.toString()
    })
    answer.on('end', () => onAnswer(answer.statusCode ?? 0, text))
  }
  const { origin, close } = await listening((incoming, outgoing) => {
    const missing = Object.fromEntries(
      Object.entries(headers).filter(([name]) => incoming.headers[name] === undefined),
    )
    const pass = async (): Promise<void> => {
      const left = new Set(members)
      while (left.size > 0 && !outgoing.destroyed) {
        const all = [...left]
        const well = all.filter(isWell)
        const [first, ...others] = well.length > 0 ? well : all
        if (!first) break
        const member = random.pick([first, ...others])
        if (await relay(incoming, outgoing, member, { headers: missing, onAnswer: read })) return
        left.delete(member)
      }
      outgoing.destroy()
    }
    void pass()
  })
  const checks = checking()
  return {
    origin,
    close: async () => {
      closing.abort()
      await Promise.all([close(), checks])
    },
  }
}
