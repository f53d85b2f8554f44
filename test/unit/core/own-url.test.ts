import { expect, it } from 'vitest'
import { ownUrl } from '../../../src/core/web.ts'

it.each([
  ['127.0.0.1', 'http://127.0.0.1:8900'],
  ['::1', 'http://[::1]:8900'],
  ['gate.example', 'http://gate.example:8900'],
  ['0.0.0.0', 'http://localhost:8900'],
  ['::', 'http://localhost:8900'],
])('the URL of a listener on %s is %s', (host, url) => {
  expect(ownUrl(host, 8900)).toBe(url)
})
