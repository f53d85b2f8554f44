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

it('the store stands beside the file', () => {
  const file = join(directory, 'gateway.config.yaml')
  expect(defaultStoreFolder({ file, directory, upstreams }, env)).toBe(join(directory, '.gatehouse'))
})

it('where nothing can be written beside the file it is in the folder of the user, for each file another', () => {
  const at = (folder: string): string =>
    defaultStoreFolder({ file: join(folder, 'g.yaml'), directory: folder, upstreams }, env)
  expect(at(join(directory, 'none'))).toMatch(ofUser)
  expect(at(join(directory, 'none'))).not.toBe(at(join(directory, 'other')))
})

it('without a file it is there too, the same for the same servers', () => {
  const of = (servers: unknown): string => defaultStoreFolder({ directory: '.', upstreams: servers }, env)
  expect(of(upstreams)).toMatch(ofUser)
  expect(of(upstreams)).toBe(of({ ...upstreams }))
  expect(of(upstreams)).not.toBe(of({ notes: upstreams.files }))
})

it('a state folder that is not absolute is not taken', () => {
  expect(defaultStoreFolder({ directory: '.', upstreams }, { XDG_STATE_HOME: 'state' })).toMatch(/^[/A-Z]/)
})
