import { expect, it } from 'vitest'
import { readiness } from '../../../src/observability/health.ts'

const upstreams = new Map([
  ['a', { revision: '2025-11-25' }],
  ['b', { problem: 'connect ECONNREFUSED postgres://user:secret@host' }],
  ['c', {}],
])
const works = { isNeeded: true, works: () => true }

it('C210 readiness reports each part and is true while calls can be served', async () => {
  expect(await readiness({ hasStarted: true, upstreams, probes: { jwks: works } })).toEqual({
    isReady: true,
    checks: { upstreams: { a: 'ok', b: 'failing', c: 'starting' }, jwks: 'ok' },
  })
})

it('C210 readiness is false until each server was tried, without servers, and without a required part', async () => {
  const none = new Map([['b', { problem: 'gone' }]])
  const fails = { isNeeded: true, works: () => Promise.reject(new Error('no')) }
  const parts = [
    { hasStarted: false, upstreams, probes: {} },
    { hasStarted: true, upstreams: none, probes: {} },
    { hasStarted: true, upstreams, probes: { jwks: fails } },
  ]
  for (const each of parts) expect(await readiness(each)).toMatchObject({ isReady: false })
})

it('readiness is true without an optional part', async () => {
  const store = { isNeeded: false, works: () => false }
  expect(await readiness({ hasStarted: true, upstreams, probes: { store } })).toMatchObject({
    isReady: true,
    checks: { store: 'failing' },
  })
})

it('C211 readiness does not reveal why a part fails', async () => {
  const jwks = { isNeeded: true, works: () => Promise.reject(new Error('secret')) }
  expect(JSON.stringify(await readiness({ hasStarted: true, upstreams, probes: { jwks } }))).not.toMatch(
    /secret|ECONN|postgres/,
  )
})
