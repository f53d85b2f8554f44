import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Finished, runCommandProcess } from '../../support/gateway-process.ts'

/**
 * How many modules of the product a command may load that prints a table, and one that reads records of several kinds. A
 * gateway has about 500.
 */
const MAX_MODULES = 65
const MAX_MODULES_OF_SEVERAL = 70
/** The same for a command that prints texts of commands: it loads what none of them does. */
const MAX_MODULES_OF_TEXTS = 30

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-loaded-'))
const config = join(folder, 'gateway.config.yaml')
const probed = createServer((_request, response) => response.end('{"status":"ok"}'))

beforeAll(async () => {
  probed.listen(0, '127.0.0.1')
  await once(probed, 'listening')
  const { port } = probed.address() as AddressInfo
  // The sections that these commands do not need are invalid.
  writeFileSync(
    config,
    `store: ./state
listen: { port: ${port} }
features: { confirm: { level: most }, no_such_feature: on }
limits: { rate: often }
upstreams: { It: { token: "\${GATEHOUSE_TEST_UNSET}" } }
`,
  )
})

afterAll(() => {
  probed.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Writes the URLs of all modules that a process loads to the file that LOADED_MODULES names. */
const recorder = `
import { registerHooks } from 'node:module'
import { writeFileSync } from 'node:fs'
const loaded = []
registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
process.on('exit', () => writeFileSync(process.env.LOADED_MODULES, loaded.join('\\n')))
`

/** Runs a command; resolves with its end, and the modules of the product that it loaded, from the folder of its entry. */
async function loading(args: readonly string[]): Promise<Finished & { readonly modules: readonly string[] }> {
  const list = join(folder, 'loaded.txt')
  const finished = await runCommandProcess(args, {
    cwd: folder,
    env: {
      LOADED_MODULES: list,
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(recorder)}`,
    },
  })
  const loaded = readFileSync(list, 'utf8').split('\n')
  const entry = loaded.find((url) => url.endsWith('/main.js')) ?? ''
  const root = entry.slice(0, -'main.js'.length)
  const modules = loaded
    .filter((url) => root !== '' && url.startsWith(root))
    .map((url) => url.slice(root.length))
  return { ...finished, modules }
}

test.each([
  { args: ['--version'], prints: /^gatehouse \d/, loads: 'cli/help.js', most: MAX_MODULES_OF_TEXTS },
  {
    args: ['test', '--help'],
    prints: /^Usage: gatehouse test/,
    loads: 'cli/help.js',
    most: MAX_MODULES_OF_TEXTS,
  },
  {
    args: ['completion', 'bash', '--', 'gatehouse', 'tx', ''],
    prints: /^list\nshow\n/,
    loads: 'cli/completion.js',
    most: MAX_MODULES_OF_TEXTS,
  },
  { args: ['health'], prints: /: ok\n$/, loads: 'cli/health.js' },
  { args: ['ops', 'list'], prints: /^No operations/, loads: 'cli/ops.js' },
  { args: ['approvals', 'list'], prints: /^No calls wait/, loads: 'cli/approvals.js' },
  { args: ['tx', 'list'], prints: /^No transactions/, loads: 'cli/tx.js', most: MAX_MODULES_OF_SEVERAL },
  {
    args: ['events', 'subscriptions'],
    prints: /^No subscriptions/,
    loads: 'cli/event-subscriptions.js',
    most: MAX_MODULES_OF_SEVERAL,
  },
  {
    args: ['events', 'dead-letters'],
    prints: /^No dead letters/,
    loads: 'cli/event-subscriptions.js',
    most: MAX_MODULES_OF_SEVERAL,
  },
  { args: ['store', 'info'], prints: /^kind +LMDB/, loads: 'cli/store.js' },
])(
  'gatehouse $args loads few modules, and needs no valid servers or features',
  async ({ args, prints, loads, most = MAX_MODULES }) => {
    const { code, stdout, stderr, modules } = await loading(args)
    expect([code, stderr, stdout]).toEqual([0, '', expect.stringMatching(prints)])
    expect(modules).toContain(loads)
    expect(modules.length).toBeLessThanOrEqual(most)
    // The store that is not configured is not loaded either.
    expect(modules.filter((name) => name.startsWith('store/redis'))).toEqual([])
  },
)

test('what sends mails is loaded with the first mail, and no gateway by the command that tries channels', async () => {
  const other = join(folder, 'channels.yaml')
  const chat = 'http://127.0.0.1:9/hook'
  writeFileSync(
    other,
    `upstreams: { It: {} }\nnotify: { channels: { chat: { slack: { url: "${chat}" } } } }\n`,
  )
  const { code, stdout, modules } = await loading(['approvals', 'test', '--config', other])
  expect([code, stdout]).toEqual([1, expect.stringMatching(/^chat +slack +failed/)])
  expect(modules).toContain('features/notify/channels.js')
  expect(modules).not.toContain('features/notify/email.js')
  expect(modules).not.toContain('gateway/gateway.js')
})

test('a command that needs the whole configuration reports what is invalid in it', async () => {
  const { code, stderr, modules } = await loading(['check'])
  expect(code).toBe(1)
  expect(stderr).toContain('no_such_feature')
  expect(stderr).toContain('GATEHOUSE_TEST_UNSET')
  expect(modules.length).toBeGreaterThan(MAX_MODULES)
})
