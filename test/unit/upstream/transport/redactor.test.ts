import { expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { createMessageRedactor } from '../../../../src/upstream/transport/redactor.ts'

const redactor = new Redactor()
redactor.learn(['given-secret'])
const discreet = createMessageRedactor(redactor)
const message = (data: unknown) => ({
  method: 'notifications/message',
  params: Payload.of({ level: 'info', data }),
})

it('D3-77 log messages contain no secrets by value, by shape or by key', () => {
  const data = { text: 'a given-secret', list: ['token=abc'], nested: { password: 'hunter2', count: 1 } }
  expect(discreet.note(message(data)).params?.fields).toEqual({
    level: 'info',
    data: { text: 'a ***', list: ['token=[redacted]'], nested: { password: '***', count: 1 } },
  })
})

it('other notifications and harmless messages are the same object', () => {
  const harmless = message({ text: 'all is well' })
  expect(discreet.note(harmless)).toBe(harmless)
  const progress = { method: 'notifications/progress', params: Payload.of({ message: 'given-secret' }) }
  expect(discreet.note(progress)).toBe(progress)
})
