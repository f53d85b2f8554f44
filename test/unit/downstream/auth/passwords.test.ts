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
