import { expect, it } from 'vitest'
import { readiness } from '../../../src/observability/health.ts'

const upstreams = new Map([
  ['a', { revision: '2025-11-25' }],
  ['b', { problem: 'connect ECONNREFUSED postgres://user:secret@host' }],
  ['c', {}],
])
const works = { isNeeded: true, works: () => true }

it('C210 tells of each part, and is ready while calls can be served', async () => {
  expect(await readiness({ isWarm: true, upstreams, probes: { jwks: works } })).toEqual({
    isReady: true,
    checks: { upstreams: { a: 'ok', b: 'failing', c: 'starting' }, jwks: 'ok' },
  })
})

it('C210 is not ready before each server was tried, without any server, and without a part that is needed', async () => {
  const none = new Map([['b', { problem: 'gone' }]])
  const fails = { isNeeded: true, works: () => Promise.reject(new Error('no')) }
  const parts = [
    { isWarm: false, upstreams, probes: {} },
    { isWarm: true, upstreams: none, probes: {} },
    { isWarm: true, upstreams, probes: { jwks: fails } },
  ]
  for (const each of parts) expect(await readiness(each)).toMatchObject({ isReady: false })
})

it('is ready without a part that calls do not need', async () => {
  const store = { isNeeded: false, works: () => false }
  expect(await readiness({ isWarm: true, upstreams, probes: { store } })).toMatchObject({
    isReady: true,
    checks: { store: 'failing' },
  })
})

it('C211 tells nothing of why a part fails', async () => {
  const jwks = { isNeeded: true, works: () => Promise.reject(new Error('secret')) }
  expect(JSON.stringify(await readiness({ isWarm: true, upstreams, probes: { jwks } }))).not.toMatch(
    /secret|ECONN|postgres/,
  )
})
