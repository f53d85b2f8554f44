import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommand, startGateway } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { freePort } from '../../support/child-process.ts'
import type { Json } from '../../support/server/json.ts'

let folder = ''
let config: Json
let file: Awaited<ReturnType<typeof configFile>>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gatehouse-documents-'))
  const [command = '', ...args] = publishedServer('@modelcontextprotocol/server-filesystem', folder)
  const [other = '', ...words] = publishedServer('@modelcontextprotocol/server-memory')
  config = {
    store: 'memory',
    listen: { public_url: 'https://tools.example.com' },
    upstreams: {
      files: { command, args },
      memory: { command: other, args: words, env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') } },
    },
  }
  file = await configFile(config)
})
afterAll(async () => {
  await file.remove()
  await rm(folder, { recursive: true, force: true })
})

test('gatehouse skill prints the bytes that a running gateway serves', async () => {
  const { code, stdout } = await runCommand(['skill', 'files', '--config', file.path])
  expect(code).toBe(0)
  expect(stdout).toContain('https://tools.example.com/mcp/files')
  const gateway = await startGateway(config, { port: await freePort() })
  const served = await fetch(new URL('/skills/files/SKILL.md', gateway.url))
  expect(await served.text()).toBe(stdout)
  await gateway.close()
})

test('gatehouse export registry prints an unverified entry', async () => {
  const one = await runCommand(['export', 'registry', 'memory', '--config', file.path])
  expect(JSON.parse(one.stdout)).toMatchObject({
    name: 'memory',
    specVersion: '0.2.0',
    alternativeAccess: { cliUrl: null, apiUrl: null, webUrl: null },
    verified: false,
  })
  const all = await runCommand(['export', 'registry', '--config', file.path])
  expect(JSON.parse(all.stdout)).toMatchObject({ name: 'gatehouse', verified: false })
})

test('unknown export formats and unknown servers are usage errors', async () => {
  const wrong = await runCommand(['export', 'nonsense', '--config', file.path])
  expect(wrong).toMatchObject({ code: 2, stdout: '' })
  expect(wrong.stderr).toContain('use gatehouse export registry')
  const nobody = await runCommand(['skill', 'nobody', '--config', file.path])
  expect(nobody).toMatchObject({ code: 2, stdout: '' })
})
