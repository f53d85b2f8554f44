import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { defaultStoreFolder } from '../../../../src/config/sections/store.ts'

const directory = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
afterAll(() => rmSync(directory, { recursive: true }))

const env = { XDG_STATE_HOME: '/var/state' }
const upstreams = { files: { command: ['node', 'server.js'] } }
const ofUser = /^\/var\/state\/gatehouse\/[0-9a-f]{16}$/

it('the default store is next to the configuration file', () => {
  const file = join(directory, 'gateway.config.yaml')
  expect(defaultStoreFolder({ file, directory, upstreams }, env)).toBe(join(directory, '.gatehouse'))
})

it('the default store of a file in a read-only folder is a folder per file in the state directory of the user', () => {
  const at = (folder: string): string =>
    defaultStoreFolder({ file: join(folder, 'g.yaml'), directory: folder, upstreams }, env)
  expect(at(join(directory, 'none'))).toMatch(ofUser)
  expect(at(join(directory, 'none'))).not.toBe(at(join(directory, 'other')))
})

it('the default store without a file is a folder in the state directory, the same for equal servers', () => {
  const of = (servers: unknown): string => defaultStoreFolder({ directory: '.', upstreams: servers }, env)
  expect(of(upstreams)).toMatch(ofUser)
  expect(of(upstreams)).toBe(of({ ...upstreams }))
  expect(of(upstreams)).not.toBe(of({ notes: upstreams.files }))
})

it('a state directory with a relative path is ignored', () => {
  expect(defaultStoreFolder({ directory: '.', upstreams }, { XDG_STATE_HOME: 'state' })).toMatch(/^[/A-Z]/)
})
