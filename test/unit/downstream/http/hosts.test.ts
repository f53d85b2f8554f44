import { afterAll, beforeAll, expect, it } from 'vitest'
import { guardedFront, type GuardedFront } from '../../../support/auth/guarded-front.ts'
import { open } from '../../../support/client/raw.ts'

let front: GuardedFront
beforeAll(async () => {
  front = await guardedFront({ listen: { legacy_sse: true } })
})
afterAll(() => front.close())

async function statusOf(path: string, host: string): Promise<number> {
  const { status, destroy } = await open(front.origin + path, { method: 'GET', headers: { host } })
  destroy()
  return status
}

it.each([
  '/',
  '/ready',
  '/health',
  '/ready?verbose',
  '/metrics',
  '/permissions',
  '/.well-known/oauth-protected-resource',
  '/oauth/start/1',
  '/oauth/callback',
  '/oauth/client.json',
  '/sse',
  '/mcp',
  '/nothing',
])('C058 %s is not served for a foreign Host header', async (path) => {
  expect(await statusOf(path, 'rebound.example')).toBe(403)
})

it.each(['/health', '/ready'])('%s is served for probes that address the host by IP', async (path) => {
  for (const host of ['10.1.2.3:3000', '[fd00::1]:3000', 'localhost'])
    expect(await statusOf(path, host)).toBe(200)
  expect(await statusOf('/', '10.1.2.3:3000')).toBe(403)
})
