/** Stores that earlier versions wrote (`test/fixtures/store-*`), in a folder of their own, half a minute after their gateway ended. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { inRepository } from './document.ts'

const clock = inRepository('test/fixtures/store-0.3.0/clock.mjs')

/** A store, its configuration, and the file in which its server notes what it does. */
export interface StoreFixture {
  readonly folder: string
  readonly config: string
  readonly journal: string
  /** The environment of its gateway and commands, whose clock begins at `now`. */
  readonly env: Readonly<Record<string, string>>
  /** The lines of the journal. */
  done(): readonly string[]
}

/**
 * Unpacks a fixture. `now` is an ISO time, so late that the gateway that wrote it is considered gone. `blobs` are the names of
 * its blobs in the store, by the name of the packed file.
 */
export function storeFixture(
  name: string,
  now: string,
  blobs: Readonly<Record<string, string>> = {},
): StoreFixture {
  const fixture = inRepository(`test/fixtures/${name}`)
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  const journal = join(folder, 'journal')
  for (const file of ['gateway.config.yaml', 'server.mjs']) cpSync(join(fixture, file), join(folder, file))
  mkdirSync(join(folder, 'store/blobs'), { recursive: true, mode: 0o700 })
  for (const [packed, path] of Object.entries({ 'data.mdb.gz': 'data.mdb', ...blobs })) {
    const content = gunzipSync(readFileSync(join(fixture, packed)))
    writeFileSync(join(folder, 'store', path), content, { mode: 0o600 })
  }
  writeFileSync(journal, '')
  return {
    folder,
    config: join(folder, 'gateway.config.yaml'),
    journal,
    env: {
      PATH: process.env['PATH'] ?? '',
      JOURNAL: journal,
      CLOCK_START: String(Date.parse(now)),
      NODE_OPTIONS: `--import ${pathToFileURL(clock).href}`,
    },
    done: () => readFileSync(journal, 'utf8').split('\n').filter(Boolean),
  }
}
