import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { isSecretName } from '../../../../src/core/text/secret.ts'

const secret = 'päss/w"o\\rd&<x> +%\n1234'
const key = 'AbC1/dEf2+gHi3/jKl4=='

function redactorOf(...secrets: readonly string[]): Redactor {
  const redactor = new Redactor()
  redactor.learn(secrets)
  return redactor
}

/** How Python's json.dumps and PHP's json_encode write a text. */
const ascii = (text: string): string =>
  JSON.stringify(text).replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
const go = (text: string): string =>
  JSON.stringify(text).replaceAll(/[<>&]/g, (each) => `\\u00${each.charCodeAt(0).toString(16)}`)
const php = (text: string): string => ascii(text).replaceAll('/', '\\/')

describe('forms of a secret', () => {
  it.each([
    ['as it is', (text: string) => text],
    ['in JSON', (text: string) => JSON.stringify({ text })],
    ['in JSON with only ASCII', (text: string) => ascii(text)],
    ['in JSON with escapes in upper case', (text: string) => ascii(text).replaceAll('\\u00e4', '\\u00E4')],
    ['in JSON for HTML', (text: string) => go(text)],
    ['in JSON with escaped slashes', (text: string) => php(text)],
    ['in JSON in JSON', (text: string) => JSON.stringify(JSON.stringify({ text }))],
    ['in JSON in JSON in JSON', (text: string) => JSON.stringify(JSON.stringify(JSON.stringify({ text })))],
    ['in JSON with only ASCII in JSON', (text: string) => JSON.stringify(php(text))],
    ['in a URL', (text: string) => `https://h/?k=${encodeURIComponent(text)}`],
    ['in a form', (text: string) => new URLSearchParams({ text }).toString()],
    ['in a URL in a URL', (text: string) => encodeURIComponent(encodeURIComponent(text))],
    [
      'in a URL in lower case',
      (text: string) => encodeURIComponent(text).replaceAll(/%../g, (each) => each.toLowerCase()),
    ],
    [
      'in HTML',
      (text: string) =>
        text
          .replaceAll('&', '&amp;')
          .replaceAll('<', '&lt;')
          .replaceAll('>', '&gt;')
          .replaceAll('"', '&#34;'),
    ],
  ])('a secret is taken out %s', (_how, form) => {
    for (const each of [secret, key]) {
      const text = `before ${form(each)} after`
      const clean = redactorOf(each).text(text)
      expect(clean).toContain('***')
      expect(clean).not.toMatch(/1234|AbC1|dEf2|jKl4|p.{1,9}ss/)
      expect(clean.startsWith('before ') && clean.endsWith(' after')).toBe(true)
    }
  })

  it('the parts of a header, a URL and a key file are secrets too', () => {
    const basic = Buffer.from('robot:open-sesame').toString('base64')
    expect(redactorOf(`Basic ${basic}`).text(`${basic} open-sesame robot`)).toBe('*** *** robot')
    expect(redactorOf('Bearer abcdef123').text('abcdef123')).toBe('***')
    expect(redactorOf('DPoP abcdef123').text('abcdef123')).toBe('***')
    const url = redactorOf('postgres://app:s3cr%40et@db:5432/main')
    expect(url.text(`s3cr%40et s3cr@et app db ${Buffer.from('app:s3cr@et').toString('base64')}`)).toBe(
      '*** *** app db ***',
    )
    const pem = '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----\n'
    const file = redactorOf(JSON.stringify({ type: 'service_account', private_key: pem }, null, 2))
    expect(file.text(`type service_account, ${pem}`)).toBe('type service_account, ***')
    expect(file.text('MIIEvQIBADANBgkqhkiG9w0B')).toBe('***')
    const headers = redactorOf('{"Authorization":"Bearer abcdef123","Notion-Version":"2022-06-28"}')
    expect(headers.text('abcdef123 for 2022-06-28')).toBe('*** for 2022-06-28')
  })
})

describe('redaction of JSON', () => {
  const shapes = (value: string): readonly unknown[] => [
    value,
    { [value]: 1 },
    { a: { b: [{ c: `x${value}y` }] } },
    { content: [{ type: 'text', text: JSON.stringify({ token: value }) }] },
    { content: [{ type: 'text', text: JSON.stringify(JSON.stringify({ token: value })) }] },
    { text: `a\n${value}` },
    { text: `a\\${value}` },
    { text: `\\\\${value}\\` },
    [value, value + value],
  ]

  it.each([
    'nobody-knows-1',
    'u00e4-secret-9',
    '"quoted"-secret',
    'back\\slash\\end\\',
    key,
    secret,
    '秘密のことば-鍵',
  ])('JSON with %j stays valid, also JSON in its texts, and has no secret', (value) => {
    const redactor = redactorOf(value)
    for (const shape of shapes(value)) {
      const clean = redactor.json(JSON.stringify(shape))
      const parsed: unknown = JSON.parse(clean)
      expect(JSON.stringify(parsed)).toContain('***')
      expect(redactor.finds(clean)).toBe(false)
      const { content } = parsed as { content?: readonly { text: string }[] }
      if (content) expect(() => JSON.parse(content[0]?.text ?? '')).not.toThrow()
    }
  })

  it('a text without a secret is the same text', () => {
    const text = '{ "a" : 1.0, "b":"\\u0041 production \\/", "c": 12345678901234567890 }'
    expect(redactorOf('nobody-knows', key, 'x y z w').json(text)).toBe(text)
  })

  it('the rest of a text with a secret keeps its bytes', () => {
    const text = '{ "a" : 1.0, "b":"\\u0041\\/", "c": 12345678901234567890, "d": "nobody-knows" }'
    expect(redactorOf('nobody-knows').json(text)).toBe(text.replace('nobody-knows', '***'))
  })

  it('a secret is found whatever JSON escapes in it, and not behind an escaped backslash', () => {
    const escaped = 'nobody-knows'.replaceAll(/./g, (each) => `\\u00${each.charCodeAt(0).toString(16)}`)
    expect(redactorOf('nobody-knows').json(`{"a":"x${escaped}","${escaped}":1}`)).toBe('{"a":"x***","***":1}')
    const other = `{"a":"\\${escaped}"}`
    expect(redactorOf('nobody-knows').json(other)).toBe(other)
  })

  it('a number that is a secret is taken out whole', () => {
    const text = '{"pin":482913,"f":482913.0,"others":[1482913,4829130,-482913,"1482913"],"text":"482913"}'
    expect(redactorOf('482913').json(text)).toBe(
      '{"pin":"***","f":"***","others":[1482913,4829130,-482913,"1482913"],"text":"***"}',
    )
  })

  it('the words of the protocol stay what they are', () => {
    const text = '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource","text":"my content"}]}}'
    expect(redactorOf('content', 'result', 'resource').json(text)).toBe(
      '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource","text":"my ***"}]}}',
    )
  })

  it('an argument keeps its name where that is the password', () => {
    const text = '{"properties":{"password":{"description":"my password"}},"required":["password"]}'
    expect(redactorOf('password').json(text)).toBe(
      '{"properties":{"password":{"description":"my ***"}},"required":["password"]}',
    )
  })

  it('generated values have no generated secret, and stay valid', () => {
    const secrets = fc
      .string({ unit: 'binary', minLength: 6, maxLength: 30 })
      .filter((each) => each.isWellFormed())
    fc.assert(
      fc.property(secrets, fc.jsonValue(), fc.boolean(), (each, value, isAscii) => {
        if ('******'.includes(each.slice(0, 6)) || each.trim().length < 6) return
        const text = `${'a'}${each}b`
        const json = isAscii ? `[${ascii(text)},${JSON.stringify(value)}]` : JSON.stringify([text, value])
        const parsed = JSON.parse(redactorOf(each).json(json)) as readonly unknown[]
        expect(String(parsed[0])).not.toContain(each)
      }),
    )
  })
})

describe('redaction of bytes in pieces', () => {
  it.each([1, 2, 3, 7, 64, 1000])('a secret is found across pieces of %i bytes', (size) => {
    const redactor = redactorOf(secret, key)
    const text = `ü${'x'.repeat(100)}${secret}y${JSON.stringify(key)}${key}${'z'.repeat(50)}é`
    const bytes = Buffer.from(text)
    const stream = redactor.stream()
    const out: Uint8Array[] = []
    for (let at = 0; at < bytes.length; at += size) out.push(stream.write(bytes.subarray(at, at + size)))
    out.push(stream.end())
    expect(Buffer.concat(out).toString()).toBe(`ü${'x'.repeat(100)}***y"***"***${'z'.repeat(50)}é`)
    expect(stream.hasFound).toBe(true)
  })
})

describe('known secrets', () => {
  it('of many, each is found', () => {
    const many = Array.from({ length: 1500 }, (_, at) => `secret-${at}-${(at * 7919).toString(36)}-end`)
    const redactor = redactorOf(...many)
    expect(many.every((each) => redactor.text(`a ${each} b`) === 'a *** b')).toBe(true)
    expect(redactor.finds('secret-1-end secret-2 -end')).toBe(false)
  })

  it('of tokens that change all the time, the latest are known, and configured secrets stay', () => {
    const redactor = redactorOf('configured-secret')
    for (let at = 0; at < 1500; at++) redactor.learnToken(`token-number-${at}!`)
    expect(redactor.text('configured-secret token-number-1499! token-number-0!')).toBe(
      '*** *** token-number-0!',
    )
  })
})

describe('names of secrets', () => {
  it.each(
    'password Password user_password newPassword passwd pwd db-pwd passphrase secret client_secret clientSecret apiKey api_key APIKEY x-api-key access_token accessToken token authToken bearer_token private_key privateKey credentials authorization Proxy-Authorization cookie Set-Cookie GITHUB_PAT SENTRY_DSN otp cvv secretAccessKey'.split(
      ' ',
    ),
  )('%s is one', (name) => expect(isSecretName(name)).toBe(true))

  it.each(
    'tokens token_count max_tokens nextPageToken page_token continuation_token progressToken secret_name secretName secret_id key keyboard monkey author authors tokenize password_policy passwordRequired cookie_policy access_key_id pattern otpauth_type region name secretary path'.split(
      ' ',
    ),
  )('%s is none', (name) => expect(isSecretName(name)).toBe(false))
})
