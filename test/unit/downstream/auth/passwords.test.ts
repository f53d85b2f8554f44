import { scryptSync } from 'node:crypto'
import { expect, it } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import { createPasswords } from '../../../../src/downstream/auth/authenticator.ts'

const salt = 'salt-of-a-test'

function users(...names: readonly string[]) {
  const digest = scryptSync('right', salt, 32).toString('hex')
  return names.map((name) => ({ name, passwordHash: new Secret(`scrypt:${salt}:${digest}`) }))
}

const codeOf = (checked: Promise<unknown>): Promise<unknown> =>
  checked.then(
    () => undefined,
    (error: { code?: unknown }) => error.code,
  )

it('after ten wrong passwords in a minute no unknown password of that name is checked, even a correct one', async () => {
  const check = createPasswords(users('anna', 'bert'))
  for (let tries = 0; tries < 10; tries++)
    expect(await codeOf(check({ name: 'anna', password: `wrong ${tries}` }))).toBe('AUTHENTICATION_REQUIRED')
  expect(await codeOf(check({ name: 'anna', password: 'right' }))).toBe('RATE_LIMIT_EXCEEDED')
  expect(await check({ name: 'bert', password: 'right' })).toEqual({ id: 'service:bert' })
})

it('a password verified before stays valid while others are being guessed', async () => {
  const check = createPasswords(users('anna'))
  await check({ name: 'anna', password: 'right' })
  for (let tries = 0; tries < 11; tries++) await codeOf(check({ name: 'anna', password: `wrong ${tries}` }))
  expect(await check({ name: 'anna', password: 'right' })).toEqual({ id: 'service:anna' })
})

it('a password that arrives many times at once is checked once, for all of them', async () => {
  const check = createPasswords(users('anna'))
  const wrong = Array.from({ length: 21 }, () => codeOf(check({ name: 'anna', password: 'wrong' })))
  expect(new Set(await Promise.all(wrong))).toEqual(new Set(['AUTHENTICATION_REQUIRED']))
  const right = await Promise.all(
    Array.from({ length: 21 }, () => check({ name: 'anna', password: 'right' })),
  )
  expect([...new Set(right)]).toEqual([{ id: 'service:anna' }])
})

it('only so many passwords are checked at once', async () => {
  const check = createPasswords(users('anna'))
  const codes = await Promise.all(
    Array.from({ length: 6 }, (_each, index) => codeOf(check({ name: 'anna', password: `wrong ${index}` }))),
  )
  expect(codes.filter((code) => code === 'OVERLOADED')).toHaveLength(2)
})
