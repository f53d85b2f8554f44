import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { sanitise } from '../../../../src/features/errors/sanitise.ts'
import { sentBy } from '../../../../src/features/errors/errors.ts'
import { toolCall } from '../../../support/tool-call.ts'

function told(text: string, args: Readonly<Record<string, unknown>> = {}): string {
  return sanitise(text, sentBy(toolCall({ params: Payload.of({ name: 't', arguments: args }) })))
}

const github = `ghp_${'a1B2'.repeat(9)}`
const jwt = `eyJhbGciOiJIUzI1NiJ9.${'eyJzdWIiOiIxIn0'}.${'c2ln'.repeat(8)}`

describe('sanitising of stack traces', () => {
  it.each([
    [
      'C181 JavaScript',
      'Error: no\n    at read (/app/x.js:1:2)\n    at async main (file:///app/y.js:10:5)',
      'Error: no',
    ],
    [
      'C181 Node',
      'TypeError: x is not a function\n    at node:internal/main:1:1',
      'TypeError: x is not a function',
    ],
    [
      'C181 Python',
      'Traceback (most recent call last):\n  File "/app/a.py", line 3, in run\n    go(1)\n       ^^^^^\nValueError: bad',
      'ValueError: bad',
    ],
    [
      'C181 Java',
      'java.io.IOException: no\n\tat com.a.B.c(B.java:10)\n\tat com.a.D.e(Unknown Source)\n\t... 12 more',
      'java.io.IOException: no',
    ],
    [
      'C181 Go',
      'panic: no\n\ngoroutine 1 [running]:\nmain.run(0x1)\n\t/app/main.go:12 +0x1d\ncreated by main.go',
      'panic: no\n',
    ],
    [
      'C181 C#',
      'System.Exception: no\n   at A.B.C(String d) in C:\\app\\B.cs:line 12\n   at A.B.Run()',
      'System.Exception: no',
    ],
    ['C181 Ruby', "no (RuntimeError)\n\tfrom /app/a.rb:3:in 'run'", 'no (RuntimeError)'],
    ['C181 PHP', 'no\n#0 /app/a.php(12): run()\n#1 {main}', 'no'],
    [
      'C181 a trace inside JSON',
      '{"error":"no\\n    at read (/app/x.js:1:2)\\nend"}',
      '{"error":"no\\nend"}',
    ],
    ['C181 a trace on one line', 'Error: no at read (/app/x.js:1:2) at com.a.B.c(B.java:10)', 'Error: no'],
  ])('%s: the stack trace is removed', (_name, text, expected) => {
    expect(told(text)).toBe(expected)
  })
})

describe('sanitising of secrets', () => {
  it.each([
    ['C182 a bearer token', 'sent Bearer abcdef123456', 'sent Bearer [redacted]'],
    ['C182 a JWT', `token ${jwt} rejected`, 'token [redacted] rejected'],
    ['C182 a GitHub token', `${github} is bad`, '[redacted] is bad'],
    ['C182 an AWS key', 'key AKIAIOSFODNN7EXAMPLE', 'key [redacted]'],
    ['C182 a Slack token', 'xoxb-123456789012-abcdefghij no', '[redacted] no'],
    [
      'C182 an OpenAI key',
      'Incorrect API key provided: sk-proj-abcdefghijklmnop1234',
      'Incorrect API key provided: [redacted]',
    ],
    ['C182 a pair', 'password=hunter2 user=ada', 'password=[redacted] user=ada'],
    ['C182 a pair in JSON', '{"client_secret": "s3 cr3t", "a": 1}', '{"client_secret": [redacted], "a": 1}'],
    ['C182 a pair with a colon', 'api_key: 12345abc', 'api_key: [redacted]'],
    [
      'C182 a private key',
      '-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- x',
      '[redacted] x',
    ],
    ['C182 a connection string', 'at postgres://ada:pw@db:5432/x failed', 'at [connection] failed'],
    ['C182 an ADO string', 'Server=db1;User Id=sa;Password=pw1;Timeout=3', '[connection]'],
  ])('%s: the secret is redacted', (_name, text, expected) => {
    expect(told(text)).toBe(expected)
  })

  it.each([
    'Invalid token: expired',
    'password: must be at least 8 characters',
    'max_tokens: 5000 is too many',
    'author: Ada',
  ])('ordinary words are not redacted as a secret: %s', (text) => expect(told(text)).toBe(text))
})

describe('sanitising of SQL queries', () => {
  it('C184 a query is removed with its values', () => {
    expect(told("bad query SELECT * FROM users WHERE mail = 'a@b.c'; done")).toBe('bad query [query]; done')
    expect(told("INSERT INTO t (a) VALUES ('x')\nline")).toBe('[query]\nline')
    expect(told('update users set age = 41 where id=7')).toBe('[query]')
  })

  it('C184 a query without values or from the caller is kept', () => {
    expect(told('SELECT a FROM b failed')).toBe('SELECT a FROM b failed')
    const sql = "SELECT a FROM b WHERE c = 'd'"
    expect(told(`near: ${sql}`, { sql })).toBe(`near: ${sql}`)
    expect(told('Please select a file from the list')).toBe('Please select a file from the list')
  })
})

describe('sanitising of paths', () => {
  it.each([
    ['C183 an absolute path', 'open /srv/docs/a.txt failed', 'open [path] failed'],
    ['C183 a quoted path with spaces', "open '/home/ada/my files/a.txt'", "open '[path]'"],
    ['C183 a home directory', 'see ~/.ssh/id_rsa', 'see [path]'],
    ['C183 a Windows path', 'open C:\\Users\\ada\\a.txt failed', 'open [path] failed'],
    ['C183 a share', 'open \\\\nas\\share\\a.txt', 'open [path]'],
    ['C183 a file URI', 'read file:///srv/docs/a.txt.', 'read [path].'],
    ['C183 a root directory', 'not in /srv', 'not in [path]'],
    ['C183 a path after an equals sign', 'cwd=/srv/app', 'cwd=[path]'],
  ])('%s: the path is redacted', (_name, text, expected) => {
    expect(told(text)).toBe(expected)
  })

  it('C183 paths of the arguments are kept and others are redacted', () => {
    const text = 'Access denied - path outside allowed directories: /etc/passwd not in /srv/docs'
    expect(told(text, { path: '/etc/passwd' })).toBe(
      'Access denied - path outside allowed directories: /etc/passwd not in [path]',
    )
    expect(told("ENOENT: open '/srv/docs/a/b.txt'", { path: 'a/b.txt' })).toBe(
      "ENOENT: open '[path]/a/b.txt'",
    )
  })

  it.each([
    'https://example.com/a/b?c=/d',
    'and/or',
    'application/json',
    '1/2 done',
    '/name must be string',
    '</div>',
  ])('text that is not a path is kept: %s', (text) => expect(told(text)).toBe(text))

  it('JSON pointers into the arguments are kept', () => {
    expect(told('/items/0/name must be string', { items: [{}] })).toBe('/items/0/name must be string')
  })
})

describe('sanitising of hosts', () => {
  it.each([
    ['C185 a private address', 'connect ECONNREFUSED 10.1.2.3:5432', 'connect ECONNREFUSED [host]'],
    ['C185 a private address in a URL', 'GET http://192.168.1.5:8080/x failed', 'GET http://[host]/x failed'],
    ['C185 an unknown name', 'getaddrinfo ENOTFOUND db-primary', 'getaddrinfo ENOTFOUND [host]'],
    ['C185 a name of one label', 'connect ECONNREFUSED db-1:5432', 'connect ECONNREFUSED [host]'],
    ['C185 an unknown internal name', 'ENOTFOUND db.corp.internal', 'ENOTFOUND [host]'],
    ['C185 a private IPv6 address', 'connect ECONNREFUSED fd00::5', 'connect ECONNREFUSED [host]'],
    ['C185 a cluster name', 'no route to billing.prod.svc.cluster.local:80.', 'no route to [host].'],
    ['C185 an internal name', 'ask vault.internal', 'ask [host]'],
    ['C185 a local port', 'localhost:3000 refused', '[host] refused'],
    ['C185 an IPv6 address', 'connect to [::1]:80', 'connect to [host]'],
  ])('%s: the host is redacted', (_name, text, expected) => {
    expect(told(text)).toBe(expected)
  })

  it.each(['example.com', '8.8.8.8', 'version 10.2.3', 'settings.local.json', 'ETIMEDOUT while reading'])(
    'text that is not a host is kept: %s',
    (text) => expect(told(text)).toBe(text),
  )

  it.each([
    'getaddrinfo ENOTFOUND api.example.com',
    'getaddrinfo EAI_AGAIN registry.example.org',
    'connect ECONNREFUSED 8.8.8.8:443',
    'connect ETIMEDOUT 2606:4700:4700::1111:443',
    'read ECONNRESET api.example.com:443',
  ])('public hosts are kept: %s', (text) => expect(told(text)).toBe(text))

  it('hosts of the arguments are kept', () => {
    expect(told('ENOTFOUND nas.local', { host: 'nas.local' })).toBe('ENOTFOUND nas.local')
  })
})

describe('sanitising of arbitrary text', () => {
  const pieces = fc.oneof(
    fc.string({ maxLength: 40 }),
    fc.constantFrom(
      ' at ',
      'a (/x/y.js:1:2)',
      '\n',
      '\\n',
      'password=',
      'token: ',
      'Bearer ',
      github,
      jwt,
      '/srv/',
      'C:\\a\\',
      '10.0.0.1',
      '.internal',
      "SELECT a FROM b WHERE c='",
      '[path]',
      '[host]',
      '://',
      'a:b@',
      '"',
      "'",
      'localhost:1',
      'ENOTFOUND ',
      'File "x", line 1',
      ';',
      '=',
    ),
  )
  const texts = fc.array(pieces, { maxLength: 30 }).map((each) => each.join(''))

  it('sanitising is idempotent', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const once = told(text)
        expect(told(once)).toBe(once)
        expect(once).not.toContain(github)
      }),
      { numRuns: 2000 },
    )
  })

  it('sanitising takes linear time', () => {
    for (const piece of [
      ' at ',
      '/a',
      'a.',
      'a=b; ',
      'select ',
      "'",
      'password ',
      '10.',
      'a:',
      '[',
      '-',
      'token:',
      '    at a (',
      'x'.repeat(40),
      '\\n',
      'a@',
      'eyJa.',
    ]) {
      const start = performance.now()
      const long = told(piece.repeat(Math.ceil(200_000 / piece.length)))
      expect(long.length).toBeLessThanOrEqual(65_536)
      expect({ piece, isSlow: performance.now() - start > 1500 }).toEqual({ piece, isSlow: false })
    }
  })
})
