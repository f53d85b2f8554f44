import fc from 'fast-check'
import { expect, it } from 'vitest'
import { plainName } from '../../../src/records/plain-name.ts'

it.each([
  ['report.pdf', 'report.pdf'],
  ['Übersicht 2026 – März.csv', 'Übersicht 2026 – März.csv'],
  ['../../etc/passwd', 'passwd'],
  ['..\\..\\boot.ini', 'boot.ini'],
  ['..', 'data'],
  ['', 'data'],
  ['.bashrc', 'bashrc'],
  ['a\0b.txt', 'a b.txt'],
  ['a\r\nset-cookie: x', 'a set-cookie  x'],
  ['gpj.\u{202E}exe', 'gpj. exe'],
  ['no\u{200B}thing\u{FEFF}', 'no thing'],
  ['CON', '_CON'],
  ['aux.txt', '_aux.txt'],
  ['COM1 .log', '_COM1 .log'],
  ['console.log', 'console.log'],
  ['C:\\x\\nul', '_nul'],
  ['C:secret', 'C secret'],
  ['trailing. . ', 'trailing'],
  ['x'.repeat(5000), 'x'.repeat(200)],
])('the name %j is plainly %j', (name, plain) => {
  expect(plainName(name)).toBe(plain)
})

it('every name is short, well-formed, without folders and without what is not shown', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (name) => {
      const plain = plainName(name)
      expect(plain).not.toMatch(/[\p{C}\p{Zl}\p{Zp}/\\:*?"<>|]|^[. ]|[. ]$/u)
      expect(plain.length).toBeGreaterThan(0)
      expect(plain.length).toBeLessThanOrEqual(202)
      expect(plain.isWellFormed()).toBe(true)
    }),
  )
})
