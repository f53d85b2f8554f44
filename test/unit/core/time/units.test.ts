import { describe, expect, it, test } from 'vitest'
import { validator } from '../../../../src/core/schema/schema.ts'
import {
  bytes,
  durationSchema,
  durationText,
  milliseconds,
  rates,
  rateSchema,
  retryAfterSeconds,
  sizeSchema,
} from '../../../../src/core/time/units.ts'

describe('durations', () => {
  test.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['1.5s', 1500],
    ['10m', 600_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['0s', 0],
  ])('%s is %d milliseconds', (text, expected) => {
    expect(milliseconds(text)).toBe(expected)
    expect(validator(durationSchema)(text)).toEqual([])
  })

  test.each([
    [0, '0ms'],
    [1500, '1500ms'],
    [90_000, '90s'],
    [600_000, '10m'],
    [5_400_000, '90m'],
    [86_400_000, '1d'],
  ])('%d milliseconds are written as %s', (duration, text) => {
    expect(durationText(duration)).toBe(text)
    expect(milliseconds(text)).toBe(duration)
  })

  test('a number is in milliseconds', () => {
    expect(milliseconds(250)).toBe(250)
    expect(() => milliseconds(-1)).toThrow(TypeError)
  })

  test.each(['', '30', 's', '-1s', '30 s', '30S', '1h30m', '3x'])('%j is not a duration', (text) => {
    expect(() => milliseconds(text)).toThrow(TypeError)
    expect(validator(durationSchema)(text)).not.toEqual([])
  })
})

describe('sizes', () => {
  test.each([
    ['1MB', 1_048_576],
    ['64KB', 65_536],
    ['0.5GB', 536_870_912],
    ['10B', 10],
    [2048, 2048],
    [0, 0],
  ])('%s is %d bytes', (size, expected) => {
    expect(bytes(size)).toBe(expected)
    expect(validator(sizeSchema)(size)).toEqual([])
  })

  test.each(['', '1', 'MB', '-1MB', '1 MB', '1mb', -1, 1.5])('%j is not a size', (size) => {
    expect(() => bytes(size)).toThrow(TypeError)
    expect(validator(sizeSchema)(size)).not.toEqual([])
  })
})

describe('rates', () => {
  test.each([
    ['60/minute', [{ limit: 60, window: 60_000 }]],
    ['100/10s', [{ limit: 100, window: 10_000 }]],
    ['1/hour', [{ limit: 1, window: 3_600_000 }]],
    ['5/d', [{ limit: 5, window: 86_400_000 }]],
    [
      ['10/second', '7/2m'],
      [
        { limit: 10, window: 1000 },
        { limit: 7, window: 120_000 },
      ],
    ],
  ])('%j is a rate', (text, expected) => {
    expect(rates(text)).toEqual(expected)
    expect(validator(rateSchema)(text)).toEqual([])
  })

  test.each(['', '10', '0/s', '10/0s', '10/week', '-1/s', '10 / s', '1.5/s', '10/S'])(
    '%j is not a rate',
    (text) => {
      expect(() => rates(text)).toThrow(TypeError)
      expect(validator(rateSchema)(text)).not.toEqual([])
    },
  )
})

it.each([
  ['120', 120],
  [' 0 ', 0],
  ['Wed, 19 Feb 2026 16:00:30 GMT', 30],
  ['Wed, 19 Feb 2026 15:59:00 GMT', 0],
  ['soon', undefined],
  ['1234567890', undefined],
  ['', undefined],
  [undefined, undefined],
])('a Retry-After of %j is %j seconds', (header, seconds) =>
  expect(retryAfterSeconds(header, Date.parse('2026-02-19T16:00:00Z'))).toBe(seconds),
)
