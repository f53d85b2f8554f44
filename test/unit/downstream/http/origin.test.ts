import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import { createAccess } from '../../../../src/downstream/http/origin.ts'

function isLetIn(known: string, origin: string): boolean {
  const text = JSON.stringify({ listen: { origins: [known] }, upstreams: { it: 'x' } })
  const access = createAccess(loadSettings(text, { file: 'f', env: {} }).settings.listen)
  const incoming: unknown = { headers: { host: '127.0.0.1', origin } }
  try {
    // The only parts of a request that are read.
    access.check(incoming as IncomingMessage)
    return true
  } catch {
    return false
  }
}

test.each([
  ['https://a.example', 'https://a.example', true],
  ['https://a.example:443', 'https://a.example', true],
  ['http://a.example:80', 'http://a.example', true],
  ['https://a.example:8443', 'https://a.example:8443', true],
  ['https://a.example:8443', 'https://a.example', false],
  ['vscode-webview://abc', 'vscode-webview://abc', true],
  ['vscode-webview://abc', 'vscode-webview://abd', false],
  ['https://a.example', 'http://127.0.0.1', true],
  ['https://a.example', 'https://localhost:3000', true],
  ['https://a.example', 'http://[::1]:8080', true],
  ['https://a.example', 'javascript://127.0.0.1', false],
  ['https://a.example', 'file://localhost', false],
  ['https://a.example', 'data://127.0.0.1', false],
  ['https://a.example', 'chrome-extension://127.0.0.1', false],
  ['https://a.example', 'ws://127.0.0.1', false],
  ['https://a.example', 'null', false],
  ['https://a.example', 'http://127.0.0.1.a.example', false],
])('with origins %s the origin %s is allowed: %s', (known, origin, isKnown) => {
  expect(isLetIn(known, origin)).toBe(isKnown)
})
