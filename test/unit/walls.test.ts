import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

interface Wall {
  readonly file: string
  readonly allowed: readonly string[]
  readonly forbidden: readonly string[]
}

const root = join(import.meta.dirname, '../..')

const imports: readonly Wall[] = [
  {
    file: 'core/call.ts',
    allowed: ['./payload.ts', 'node:util', 'node:crypto', 'lru-cache'],
    forbidden: [
      'ajv',
      'node:fs',
      'node:module',
      'undici',
      '../wire/methods.ts',
      '../gateway.ts',
      'unknown-package',
    ],
  },
  {
    file: 'core/schema.ts',
    allowed: ['ajv', 'ajv/dist/2020.js', './json.ts'],
    forbidden: ['../wire/methods.ts', 'hono', 'ajv-formats'],
  },
  {
    file: 'wire/codec.ts',
    allowed: ['../core/call.ts', './legacy.ts', 'eventsource-parser', 'eventsource-parser/stream'],
    forbidden: ['../bridge/ask.ts', '../store/store.ts', 'node:fs', 'node:http', 'ajv'],
  },
  {
    file: 'store/open.ts',
    allowed: ['../core/error.ts', 'lmdb', 'node:path', 'node:fs/promises'],
    forbidden: ['../wire/jsonrpc.ts', '../config/load.ts', 'undici'],
  },
  {
    file: 'observe/audit.ts',
    allowed: ['../core/log.ts', './log.ts', 'node:fs', 'prom-client', '../wire/extensions.ts'],
    forbidden: ['../downstream/http.ts', '../store/store.ts', '../wire/jsonrpc.ts', 'node:child_process'],
  },
  {
    file: 'observed.ts',
    allowed: ['./core/call.ts', './observe/observing.ts', './upstream/upstream.ts', './wire/methods.ts'],
    forbidden: ['./downstream/http.ts', './features/index.ts', './gateway.ts', 'prom-client'],
  },
  {
    file: 'documents/help.ts',
    allowed: [
      './skill.ts',
      '../core/record.ts',
      '../wire/extensions.ts',
      '../wire/revisions.ts',
      'node:crypto',
    ],
    forbidden: [
      '../wire/codec.ts',
      '../features/index.ts',
      '../catalog/classify.ts',
      'yaml',
      'node:fs',
      'hono',
    ],
  },
  {
    file: 'bridge/park.ts',
    allowed: ['../core/call.ts', '../wire/peer.ts', '../store/store.ts', './seal.ts'],
    forbidden: ['../store/memory.ts', '../upstream/http.ts', '../downstream/reply.ts', 'eventsource-parser'],
  },
  {
    file: 'catalog/catalog.ts',
    allowed: ['../core/target.ts', '../wire/methods.ts'],
    forbidden: ['../upstream/pool.ts', '../features/index.ts', '../bridge/park.ts'],
  },
  {
    file: 'upstream/http.ts',
    allowed: ['../core/call.ts', '../wire/codec.ts', '../bridge/park.ts', 'undici', 'node:child_process'],
    forbidden: [
      '../bridge/ask.ts',
      '../catalog/catalog.ts',
      '../store/store.ts',
      'hono',
      'yaml',
      'node:http',
    ],
  },
  {
    file: 'upstream/credentials/vault.ts',
    allowed: [
      './desk.ts',
      '../login.ts',
      '../../core/call.ts',
      '../../store/store.ts',
      'oauth4webapi',
      'undici',
    ],
    forbidden: ['../../store/memory.ts', '../../bridge/park.ts', 'node:child_process', 'jose', 'node:fs'],
  },
  {
    file: 'features/confirm.ts',
    allowed: [
      './feature.ts',
      '../core/call.ts',
      '../wire/methods.ts',
      '../wire/extensions.ts',
      '../store/store.ts',
    ],
    forbidden: ['./limits.ts', './index.ts', '../wire/codec.ts', '../store/lmdb.ts', 'node:http', 'undici'],
  },
  {
    file: 'features/transactions/journal.ts',
    allowed: [
      './steps.ts',
      '../feature.ts',
      '../own-tool.ts',
      '../../core/call.ts',
      '../../records/deeds.ts',
      '../../store/store.ts',
    ],
    forbidden: ['../confirm.ts', '../limits/limits.ts', '../../wire/codec.ts', '../../gateway.ts'],
  },
  {
    file: 'features/index.ts',
    allowed: ['./confirm.ts', './transactions/journal.ts'],
    forbidden: ['../upstream/own.ts', '../wire/methods.ts', 'undici'],
  },
  {
    file: 'downstream/auth/jwt.ts',
    allowed: ['jose', '../../core/error.ts', '../fetch-json.ts', './keys.ts'],
    forbidden: ['undici', '../../config/load.ts', '../../store/store.ts', '../../upstream/http.ts'],
  },
  {
    file: 'downstream/fetch-json.ts',
    allowed: ['undici', '../core/json.ts', './access.ts'],
    forbidden: ['../wire/codec.ts', 'jose', 'hono', '../upstream/http.ts'],
  },
  {
    file: 'downstream/receive.ts',
    allowed: ['../bridge/ask.ts', '../wire/codec.ts', 'hono', 'hono/cors', '@hono/node-server', 'node:http'],
    forbidden: ['../upstream/http.ts', '../catalog/catalog.ts', '../features/index.ts', 'undici', 'yaml'],
  },
  {
    file: 'config/load.ts',
    allowed: [
      'yaml',
      '../features/index.ts',
      '../wire/revisions.ts',
      '../core/settings.ts',
      './secrets.ts',
      'node:fs/promises',
    ],
    forbidden: ['../features/confirm.ts', '../gateway.ts', '../wire/codec.ts', 'hono'],
  },
  {
    file: 'admin/approvals.ts',
    allowed: ['hono', '../store/store.ts', '../observe/health.ts', '../core/error.ts'],
    forbidden: ['../store/memory.ts', '../features/confirm.ts', '../downstream/http.ts', 'undici'],
  },
  {
    file: 'lint/tools.ts',
    allowed: ['./verdict.ts', '../core/json.ts', '../wire/methods.ts', '../catalog/classify.ts'],
    forbidden: [
      '../catalog/catalog.ts',
      '../features/index.ts',
      '../gateway.ts',
      '../upstream/http.ts',
      'node:fs',
    ],
  },
  {
    file: 'cli/serve.ts',
    allowed: ['../gateway.ts', '../config/load.ts', '../core/settings.ts', 'node:fs'],
    forbidden: ['../upstream/http.ts', '../wire/jsonrpc.ts', '../main.ts', 'undici', 'yaml'],
  },
  {
    file: 'gateway.ts',
    allowed: ['./upstream/pool.ts', './downstream/listen.ts', './features/index.ts', './config/load.ts'],
    forbidden: ['./cli/serve.ts', './main.ts', 'undici', 'hono', 'node:child_process'],
  },
  {
    file: 'main.ts',
    allowed: ['./cli/serve.ts', './gateway.ts', './core/error.ts'],
    forbidden: ['./upstream/pool.ts', './wire/jsonrpc.ts', 'node:child_process'],
  },
  {
    file: 'wire/sub/deep.ts',
    allowed: ['./near.ts', '../codec.ts', '../../core/call.ts'],
    forbidden: ['../../gateway.ts', '../../bridge/ask.ts', '../core/call.ts/../../../upstream/http.ts'],
  },
  { file: 'elsewhere/new.ts', allowed: [], forbidden: ['../core/call.ts', './near.ts', 'node:util'] },
]

const statements: readonly Wall[] = [
  {
    file: 'core/forms.ts',
    allowed: ["import type { Call } from './call.ts'"],
    forbidden: [
      "import { Pool } from 'undici'",
      "import 'undici'",
      "import type { Agent } from 'undici'",
      "export { Client } from 'undici'",
      "export * from 'undici'",
    ],
  },
  {
    file: 'downstream/http.ts',
    allowed: ['Date.now()', 'process.stderr.write(text)'],
    forbidden: [
      'process.env.HOME',
      'process.exit(1)',
      'process.stdout.write(text)',
      'fetch(url)',
      'console.log(text)',
    ],
  },
  { file: 'wire/headers.ts', allowed: ['Date.parse(text)'], forbidden: ['Date.now()', 'performance.now()'] },
  { file: 'config/secrets.ts', allowed: ['process.env'], forbidden: ['process.exit(1)'] },
  {
    file: 'cli/check.ts',
    allowed: ['process.stdout.write(text)', 'process.exit(1)'],
    forbidden: ['process.env'],
  },
]

const copy = mkdtempSync(join(tmpdir(), 'walls-'))
let complaints: Map<string, number[]>

beforeAll(() => {
  const config = pathToFileURL(join(root, 'oxlint.config.ts')).href
  write('oxlint.config.ts', [`import config from '${config}'`, 'export default { ...config, options: {} }'])
  for (const { file, allowed, forbidden } of imports)
    write(`src/${file}`, [...allowed, ...forbidden].map(importing))
  for (const { file, allowed, forbidden } of statements) write(`src/${file}`, [...allowed, ...forbidden])
  complaints = lint()
}, 60_000)

afterAll(() => rmSync(copy, { recursive: true }))

describe('the walls of src', () => {
  test.each([...imports, ...statements])('$file is told of each line it may not have', (wall) => {
    expect(complaints.get(`src/${wall.file}`) ?? []).toEqual(
      wall.forbidden.map((_, index) => wall.allowed.length + index + 1),
    )
  })
})

function importing(name: string): string {
  return `await import('${name}')`
}

function write(file: string, lines: readonly string[]): void {
  const path = join(copy, file)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, lines.join('\n') + '\n')
}

function lint(): Map<string, number[]> {
  const command = join(root, 'node_modules/.bin/oxlint')
  const { stdout, stderr } = spawnSync(command, ['--format=json'], { cwd: copy, encoding: 'utf8' })
  if (!stdout.startsWith('{')) throw new Error(`oxlint did not run: ${stdout}${stderr}`)
  const report: Report = JSON.parse(stdout)
  const found = new Map<string, number[]>()
  for (const { code, filename, labels } of report.diagnostics) {
    const line = labels[0]?.span.line
    if (line === undefined || !/no-restricted|no-console/.test(code)) continue
    const lines = found.get(filename) ?? []
    found.set(
      filename,
      [...lines, line].toSorted((a, b) => a - b),
    )
  }
  return found
}

interface Report {
  readonly diagnostics: readonly {
    readonly code: string
    readonly filename: string
    readonly labels: readonly { readonly span: { readonly line: number } }[]
  }[]
}
