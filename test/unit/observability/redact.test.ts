import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { Secret, isSecretName } from '../../../src/core/text/secret.ts'
import { openLog } from '../../../src/observability/log.ts'
import { Redactor, secretsOf } from '../../../src/core/text/redactor.ts'

const canary = 'canary-9f8e7d"\\x'

describe('redaction of secrets by value', () => {
  const redactor = new Redactor()
  redactor.learn([`Bearer ${canary}`, 'redis://user:p%40ss-word@host/0', 'short', 'plain-secret.*'])

  it('C063 secrets are found alone, with their scheme, and escaped in JSON and URLs', () => {
    for (const text of [
      canary,
      `Bearer ${canary}`,
      JSON.stringify({ a: canary }),
      encodeURIComponent(canary),
    ]) {
      expect(redactor.finds(text)).toBe(true)
      expect(redactor.text(text)).not.toContain('canary-9f8e7d')
    }
  })

  it('C063 secrets are found as the password of a URL', () => {
    expect(redactor.text('the password is p@ss-word')).toBe('the password is ***')
  })

  it('C063 multi-line secrets are found line by line', () => {
    const strict = new Redactor()
    strict.learn(['first line of a secret\nsecond line of a secret\n}'])
    expect(strict.text('> second line of a secret }')).toBe('> *** }')
  })

  it('secrets known to the reader are kept', () => {
    expect(redactor.text('plain-secret.*', (secret) => secret.startsWith('plain'))).toBe('plain-secret.*')
  })

  it('short secrets are not redacted, because they look like words', () => {
    expect(redactor.text('in short')).toBe('in short')
  })

  it('secrets are matched literally', () => {
    expect(redactor.text('plain-secret.* plain-secretXY')).toBe('*** plain-secretXY')
  })

  it('no secret remains in any value', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 6 }), fc.jsonValue(), (secret, value) => {
        const strict = new Redactor()
        strict.learn([secret])
        const cleaned = JSON.stringify(strict.value({ value, deep: [{ value: `a${secret}b` }] }))
        if (!'*'.repeat(9).includes(secret)) expect(JSON.parse(cleaned).deep[0].value).not.toContain(secret)
      }),
    )
  })
})

describe('redaction of secrets by key', () => {
  it.each([
    'authorization',
    'Cookie',
    'set-cookie',
    'access_token',
    'apiKey',
    'client_secret',
    'x-api-key',
    'password',
  ])('C205 hides what stands under %s', (key) => expect(isSecretName(key)).toBe(true))

  it.each(['tokens', 'method', 'name', 'key', 'keyboard', 'outcome'])('the value of %s is kept', (key) =>
    expect(isSecretName(key)).toBe(false),
  )
})

it('every secret in the settings is found at any depth', () => {
  const settings = { a: [{ headers: { x: new Secret('one') } }], b: { c: new Secret('two') }, d: 'three' }
  expect(secretsOf(settings)).toEqual(['one', 'two'])
})

describe('redaction in the log', () => {
  let lines: string[] = []
  beforeEach(() => {
    lines = []
  })
  const write = (line: string): void => void lines.push(line)
  const written = (): string => lines.join('')

  it.each([true, false])(
    'C063 C205 the log contains no secret, by value or by key (pretty: %s)',
    (isPretty) => {
      const log = openLog('info', { log: write, stderr: {} }, isPretty)
      log.redactor.learn([canary])
      log.info('call', {
        reason: `it said ${canary}`,
        nested: { text: [canary] },
        authorization: 'Basic eA==',
      })
      log.info('call', { headers: { cookie: 'a=b', 'x-other': 'seen' } })
      const text = written()
      expect(text).not.toContain('canary-9f8e7d')
      expect(text).not.toContain('eA==')
      expect(text).not.toContain('a=b')
      expect(text).toContain('seen')
      expect(text).toContain('it said ***')
    },
  )

  it('log lines stay valid JSON if a secret equals a word of the format', () => {
    const log = openLog('info', { log: write, stderr: {} }, false)
    log.redactor.learn(['method', '"event":"call'])
    log.info('call', { method: 'tools/call', name: 'method' })
    expect(JSON.parse(written())).toMatchObject({ event: 'call', method: 'tools/call', name: '***' })
  })

  it('C063 the log redacts the latest secrets and the earlier ones', () => {
    const log = openLog(undefined, { log: write, stderr: {} }, false)
    log.redactor.learn(['first-secret'])
    log.redactor.learn(['second-secret'])
    log.configure({ level: 'warn' })
    log.info('unseen')
    log.warn('call', { text: 'first-secret second-secret' })
    expect(JSON.parse(written())).toMatchObject({ text: '*** ***' })
  })

  it('the log level of the command line has precedence', () => {
    const log = openLog('debug', { log: write, stderr: {} }, false)
    log.configure({ level: 'error' })
    log.debug('seen')
    expect(written()).toContain('seen')
  })
})
