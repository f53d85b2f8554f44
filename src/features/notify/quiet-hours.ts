/**
 * Quiet hours: when messages wait. They are times of a wall clock, which a day of 23 or 25 hours moves, so the zone is asked for
 * each time anew.
 */
import type { QuietSettings } from '../settings/notify.ts'

/** A message, as far as quiet hours distinguish messages. */
export interface Urgency {
  readonly isDestructive: boolean
  readonly isEscalated: boolean
}

const MINUTE_MS = 60_000
const DAY_MINUTES = 1440
const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const
/** How many quiet hours that follow each other are looked at: a list that covers all hours has no end. */
const MAX_STEPS = 32

/** The quiet hours of a configuration. */
export class QuietHours {
  readonly #rules: readonly Rule[]

  constructor(settings: readonly QuietSettings[]) {
    this.#rules = settings.map((each) => new Rule(each))
  }

  /** Whether a message waits at a time, in milliseconds since 1970. */
  holds(at: number, urgency: Urgency): boolean {
    return this.#rules.some((rule) => !rule.passes(urgency) && rule.left(at) > 0)
  }

  /** From when on it does not wait any more: that time if it does not wait then. */
  heldUntil(at: number, urgency: Urgency): number {
    let until = at
    for (let step = 0; step < MAX_STEPS; step++) {
      const rule = this.#rules.find((each) => !each.passes(urgency) && each.left(until) > 0)
      if (!rule) break
      until = rule.end(until)
    }
    return until
  }
}

/** Hours on some days. */
class Rule {
  readonly #settings: QuietSettings
  readonly #format: Intl.DateTimeFormat
  /** In minutes after midnight, and how many there are. */
  readonly #from: number
  readonly #length: number

  constructor(settings: QuietSettings) {
    this.#settings = settings
    this.#from = minutesOf(settings.from)
    this.#length = (minutesOf(settings.to) - this.#from + DAY_MINUTES) % DAY_MINUTES || DAY_MINUTES
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone: settings.time_zone,
      weekday: 'short',
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
    })
  }

  passes({ isDestructive, isEscalated }: Urgency): boolean {
    const { pass } = this.#settings
    return (pass === 'destructive' && isDestructive) || (pass === 'escalated' && isEscalated)
  }

  /** How many minutes are left by the wall clock; 0 outside of these hours. */
  left(at: number): number {
    const { day, minutes } = this.#clock(at)
    const today = minutes - this.#from
    const found = [
      { day, passed: today },
      { day: (day + 6) % 7, passed: today + DAY_MINUTES },
    ].find((each) => this.#isOn(each.day) && each.passed >= 0 && each.passed < this.#length)
    return found ? this.#length - found.passed : 0
  }

  /** When they end, given a time in them. */
  end(at: number): number {
    const next = Math.floor(at / MINUTE_MS) * MINUTE_MS + this.left(at) * MINUTE_MS
    // Where the clock went forward on the way, that is too late by as much.
    const { minutes } = this.#clock(next)
    const late = (minutes - this.#from - this.#length + 2 * DAY_MINUTES) % DAY_MINUTES
    const earlier = next - late * MINUTE_MS
    return late > 0 && earlier > at && this.left(earlier) === 0 ? earlier : next
  }

  #isOn(day: number): boolean {
    const own = this.#settings.days
    const name = days[day]
    return own === undefined || (name !== undefined && own.includes(name))
  }

  #clock(at: number): { readonly day: number; readonly minutes: number } {
    const parts = new Map(this.#format.formatToParts(at).map(({ type, value }) => [type, value]))
    const day = days.findIndex((name) => name === parts.get('weekday')?.toLowerCase())
    return { day, minutes: Number(parts.get('hour')) * 60 + Number(parts.get('minute')) }
  }
}

function minutesOf(time: string): number {
  const [hours, minutes] = time.split(':')
  return Number(hours) * 60 + Number(minutes)
}
