import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import { createOperator, type Operator, pageUserNamed } from '../../../../src/downstream/pages/page-users.ts'

const own = [randomBytes(32)]

function operatorAt(now: () => number, keys = own, isOfOther = async () => false): Operator {
  return createOperator({ now, keys: () => keys, isOfOther })
}

async function cookieFrom(operator: Operator, typed = operator.code): Promise<string | undefined> {
  const session = await operator.createSession(typed)
  return session && `other=1; ${session.name}=${session.value}`
}

it('the code is accepted in any case and spacing, and nothing else is', async () => {
  const operator = operatorAt(() => 0)
  expect(operator.code).toMatch(/^[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}$/)
  const cookie = await cookieFrom(operator, ` ${operator.code.toLowerCase().replace('-', ' ')} `)
  expect(operator.isValid(cookie)).toBe(true)
  expect(await operator.createSession('')).toBeUndefined()
  expect(await operator.createSession(operator.code.slice(0, -1))).toBeUndefined()
})

it('a cookie is valid for twelve hours, unmodified, and where the same key is known', async () => {
  let now = 0
  const operator = operatorAt(() => now)
  const cookie = (await cookieFrom(operator)) ?? ''
  const [name = '', end = '', signature = ''] = cookie.replace('other=1; ', '').split(/[=.]/)
  expect(operator.isValid(undefined)).toBe(false)
  expect(operator.isValid(`${name}=`)).toBe(false)
  expect(operator.isValid(`${name}=.`)).toBe(false)
  expect(operator.isValid(`${name}=${Number(end) + 1}.${signature}`)).toBe(false)
  expect(operatorAt(() => 0, [randomBytes(32)]).isValid(cookie)).toBe(false)
  expect(operatorAt(() => 0, [randomBytes(32), ...own]).isValid(cookie)).toBe(true)
  now = 12 * 3_600_000 - 1
  expect(operator.isValid(cookie)).toBe(true)
  now = 12 * 3_600_000
  expect(operator.isValid(cookie)).toBe(false)
})

it('the code of another gateway with the same store is accepted', async () => {
  const operator = operatorAt(
    () => 0,
    own,
    async () => true,
  )
  expect(operator.isValid(await cookieFrom(operator, 'AAAA-AAAA'))).toBe(true)
})

it('the code of another gateway counts as no wrong one, however often it is entered', async () => {
  const operator = operatorAt(
    () => 0,
    own,
    async () => true,
  )
  for (let entered = 0; entered < 6; entered++)
    expect(await operator.createSession('AAAA-AAAA')).toBeDefined()
})

it('after five wrong codes in a minute, also at once, the right code is refused', async () => {
  let now = 0
  const operator = operatorAt(() => now)
  const wrong = Array.from({ length: 5 }, () => operator.createSession('AAAA-AAAA'))
  await expect(operator.createSession(operator.code)).rejects.toThrow('Wait a minute')
  expect(await Promise.all(wrong)).toEqual([undefined, undefined, undefined, undefined, undefined])
  now = 60_001
  expect(await operator.createSession(operator.code)).toBeDefined()
})

it('a person with a password makes calls in the name in which the person approves them', () => {
  const user = {
    name: 'desk',
    passwordHash: new Secret('x'),
    approvesAs: 'user:bo',
    roles: ['operator'],
  } as const
  expect(pageUserNamed({ id: 'service:desk' }, { users: [user] })).toMatchObject({
    by: 'user:bo',
    principal: { id: 'user:bo' },
  })
})
