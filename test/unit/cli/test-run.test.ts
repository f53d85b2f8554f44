import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { runTest, type ServerTestSettings, testServers } from '../../../src/cli/test-run.ts'
import { fromArguments } from '../../../src/config/load.ts'
import type { Settings, UpstreamSettings } from '../../../src/core/settings.ts'
import { memoryIo } from '../../support/memory-io.ts'
import { until } from '../../support/condition.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-test-run-'))
afterAll(() => rmSync(root, { recursive: true }))

const options: ServerTestSettings = {
  seed: 1,
  timeout: 1000,
  maxTime: 1000,
  tools: [],
  withWrites: false,
  isCopied: false,
}

/** Servers that never answer, and leave a file when they are started. */
function silentServers(...names: readonly string[]): {
  readonly settings: Settings
  readonly servers: readonly UpstreamSettings[]
  wasStarted(name: string): boolean
} {
  const folder = mkdtempSync(join(root, 'started-'))
  const script = 'require("fs").writeFileSync(process.argv[1], ""); process.stdin.resume()'
  const settings = fromArguments([process.execPath], { env: {} })
  const [plain] = settings.upstreams
  if (plain?.reach.kind !== 'command') throw new Error('no command')
  const { reach } = plain
  const servers = names.map((name) => ({
    ...plain,
    name,
    startTimeout: 60_000,
    reach: { ...reach, args: ['-e', script, join(folder, name)] },
  }))
  return {
    settings: { ...settings, upstreams: servers },
    servers,
    wasStarted: (name) => existsSync(join(folder, name)),
  }
}

describe('a test of a server that never answers', () => {
  const onProgress = (): void => undefined

  it('ends when its time is over, also while it is started', async () => {
    const { settings, servers } = silentServers('silent')
    const [server] = servers
    if (!server) throw new Error('no server')
    const run = runTest(settings, server, { ...options, io: memoryIo(), limit: 300, onProgress })
    await expect(run).rejects.toThrow('silent was not tested: the time for this server, 300ms, is over')
  })

  it('starts nothing if it was interrupted before', async () => {
    const { settings, servers, wasStarted } = silentServers('silent')
    const [server] = servers
    if (!server) throw new Error('no server')
    const signal = AbortSignal.abort()
    const run = runTest(settings, server, { ...options, io: memoryIo(), limit: 1000, signal, onProgress })
    await expect(run).rejects.toThrow('silent was not tested: it was interrupted')
    expect(wasStarted('silent')).toBe(false)
  })

  it('leaves out the servers whose turn has not come when it is interrupted', async () => {
    const { settings, wasStarted } = silentServers('first', 'second')
    const stopping = new AbortController()
    const { signal } = stopping
    const run = testServers(settings, { ...options, io: memoryIo(), jobs: 1, limit: 5000, signal })
    await until(() => wasStarted('first'), 'the first server to start')
    stopping.abort()
    const reports = await run
    expect(reports.map((report) => report.server_name)).toEqual(['first'])
    expect(wasStarted('second')).toBe(false)
  })
})
