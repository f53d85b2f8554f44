import { describe, expect, it } from 'vitest'
import { QuietHours } from '../../../../src/features/notify/quiet-hours.ts'
import type { QuietSettings } from '../../../../src/features/settings/notify.ts'

const ordinary = { isDestructive: false, isEscalated: false }

function quiet(rule: Partial<QuietSettings> = {}): QuietSettings {
  return { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin', pass: 'none', ...rule }
}

function held(rules: readonly QuietSettings[], at: string, urgency = ordinary): boolean {
  return new QuietHours(rules).holds(Date.parse(at), urgency)
}

function until(rules: readonly QuietSettings[], at: string, urgency = ordinary): string {
  return new Date(new QuietHours(rules).heldUntil(Date.parse(at), urgency)).toISOString()
}

describe('quiet hours', () => {
  // In January, Berlin is an hour ahead of UTC.
  it.each([
    ['a minute before they begin', '2026-01-14T20:59:59Z', false],
    ['when they begin', '2026-01-14T21:00:00Z', true],
    ['after midnight', '2026-01-15T01:00:00Z', true],
    ['in their last minute', '2026-01-15T05:59:59Z', true],
    ['when they end', '2026-01-15T06:00:00Z', false],
    ['in summer, an hour earlier', '2026-07-14T20:00:00Z', true],
    ['in summer, before that', '2026-07-14T19:59:00Z', false],
  ])('over midnight hold messages or not: %s', (_title, at, isHeld) =>
    expect(held([quiet()], at)).toBe(isHeld),
  )

  it.each([
    ['on the evening of a day that is named', '2026-01-16T22:00:00Z', true],
    ['on the morning after it', '2026-01-17T05:00:00Z', true],
    ['on the evening of another day', '2026-01-15T22:00:00Z', false],
    ['on the morning after that one', '2026-01-16T05:00:00Z', false],
  ])('of some days belong to the day on which they begin: %s', (_title, at, isHeld) =>
    // 2026-01-16 is a Friday.
    expect(held([quiet({ days: ['fri'] })], at)).toBe(isHeld),
  )

  it('from midnight to 24:00 are whole days', () => {
    const weekend = quiet({ from: '00:00', to: '24:00', days: ['sat', 'sun'] })
    expect(held([weekend], '2026-01-16T22:59:00Z')).toBe(false)
    expect(held([weekend], '2026-01-16T23:00:00Z')).toBe(true)
    expect(held([weekend], '2026-01-18T22:59:00Z')).toBe(true)
    expect(held([weekend], '2026-01-18T23:00:00Z')).toBe(false)
  })

  it.each([
    ['none', false, false, true],
    ['none', true, true, true],
    ['destructive', true, false, false],
    ['destructive', false, true, true],
    ['escalated', false, true, false],
    ['escalated', true, false, true],
  ] as const)('with pass: %s, destructive %s, escalated %s', (pass, isDestructive, isEscalated, isHeld) =>
    expect(held([quiet({ pass })], '2026-01-14T23:00:00Z', { isDestructive, isEscalated })).toBe(isHeld),
  )
})

describe('the end of quiet hours', () => {
  it('is that time if nothing is held then', () => {
    expect(until([quiet()], '2026-01-14T12:34:56Z')).toBe('2026-01-14T12:34:56.000Z')
  })

  it.each([
    ['in winter', '2026-01-14T21:30:12Z', '2026-01-15T06:00:00.000Z'],
    ['in summer', '2026-07-14T20:30:12Z', '2026-07-15T05:00:00.000Z'],
    ['in the night in which the clock goes forward', '2026-03-28T22:00:00Z', '2026-03-29T05:00:00.000Z'],
    ['in the night in which it goes back', '2026-10-24T21:00:00Z', '2026-10-25T06:00:00.000Z'],
  ])('is the time of the wall clock: %s', (_title, at, end) => expect(until([quiet()], at)).toBe(end))

  it('of hours that follow each other is the end of the last of them', () => {
    const rules = [quiet(), quiet({ from: '07:00', to: '09:00', days: ['thu'] })]
    expect(until(rules, '2026-01-14T23:00:00Z')).toBe('2026-01-15T08:00:00.000Z')
  })

  it('is found in zones with quarters of an hour, and on the day that a zone left out', () => {
    expect(until([quiet({ time_zone: 'Asia/Kathmandu' })], '2026-01-14T18:00:00Z')).toBe(
      '2026-01-15T01:15:00.000Z',
    )
    // On 2011-12-30, Samoa went from the 29th to the 31st.
    const samoa = quiet({ time_zone: 'Pacific/Apia', from: '22:00', to: '07:00' })
    expect(until([samoa], '2011-12-30T09:00:00Z')).toBe('2011-12-30T17:00:00.000Z')
  })

  it('of hours without an end is some day', () => {
    const always = quiet({ from: '00:00', to: '24:00' })
    expect(Date.parse(until([always], '2026-01-14T12:00:00Z'))).toBeGreaterThan(Date.parse('2026-02-01'))
  })
})
