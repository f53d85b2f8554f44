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
    allowed: ['./payload.ts', './json/json.ts', 'node:util', 'node:crypto', 'lru-cache'],
    forbidden: [
      'ajv',
      'node:fs',
      'node:module',
      'undici',
      '../protocol/methods.ts',
      '../gateway/gateway.ts',
      'unknown-package',
    ],
  },
  {
    file: 'core/schema/schema.ts',
    allowed: ['ajv', 'ajv/dist/2020.js', '../json/json.ts', './near.ts'],
    forbidden: ['../../protocol/methods.ts', 'hono', 'ajv-formats'],
  },
  {
    file: 'core/text/words.ts',
    allowed: ['../json/json.ts', '../call.ts', './stem.ts'],
    forbidden: ['re2js', '../../protocol/methods.ts'],
  },
  {
    file: 'protocol/jsonrpc.ts',
    allowed: ['../core/call.ts', './legacy.ts', 'eventsource-parser', 'eventsource-parser/stream'],
    forbidden: ['../upstream/connector.ts', '../store/store.ts', 'node:fs', 'node:http', 'ajv'],
  },
  {
    file: 'testkit/player.ts',
    allowed: [
      './cassette.ts',
      '../core/json/json.ts',
      '../upstream/transport/transport.ts',
      'node:timers/promises',
    ],
    forbidden: [
      '../upstream/connector.ts',
      '../features/index.ts',
      '../gateway/gateway.ts',
      'node:fs',
      'undici',
    ],
  },
  {
    file: 'store/open.ts',
    allowed: ['../core/error.ts', './lmdb/store.ts', 'lmdb', 'node:path', 'node:fs/promises'],
    forbidden: ['../protocol/jsonrpc.ts', '../config/load.ts', 'undici'],
  },
  {
    file: 'observability/audit/audit.ts',
    allowed: [
      '../../core/log.ts',
      '../log.ts',
      './line.ts',
      'node:fs',
      'prom-client',
      '../../protocol/meta-keys.ts',
    ],
    forbidden: [
      '../../downstream/stdio.ts',
      '../../store/store.ts',
      '../../protocol/jsonrpc.ts',
      'node:child_process',
    ],
  },
  {
    file: 'descriptions/formats/help.ts',
    allowed: [
      './skill.ts',
      '../model/description.ts',
      '../../core/descriptor.ts',
      '../../core/revisions.ts',
      'node:crypto',
    ],
    forbidden: [
      '../../protocol/jsonrpc.ts',
      '../../protocol/meta-keys.ts',
      '../../features/index.ts',
      '../../catalog/router.ts',
      'yaml',
      'node:fs',
      'hono',
    ],
  },
  {
    file: 'catalog/router.ts',
    allowed: ['../core/call.ts', '../protocol/methods.ts'],
    forbidden: ['../upstream/connector.ts', '../features/index.ts', '../store/store.ts'],
  },
  {
    file: 'upstream/transport/http.ts',
    allowed: [
      '../../core/call.ts',
      '../../protocol/jsonrpc.ts',
      '../suspended-calls.ts',
      '../protocol/modern.ts',
      'undici',
      'node:child_process',
    ],
    forbidden: [
      '../../downstream/stdio.ts',
      '../../catalog/router.ts',
      '../../store/store.ts',
      'hono',
      'yaml',
      'node:http',
    ],
  },
  {
    file: 'upstream/oauth/token-vault.ts',
    allowed: [
      './grants.ts',
      '../transport/auth-retry.ts',
      '../../core/call.ts',
      '../../durable/lease.ts',
      'oauth4webapi',
      'undici',
    ],
    forbidden: ['../../store/store.ts', '../protocol/modern.ts', 'node:child_process', 'jose', 'node:fs'],
  },
  {
    file: 'features/retry.ts',
    allowed: [
      './feature.ts',
      './settings/upstream.ts',
      '../core/call.ts',
      '../protocol/methods.ts',
      '../protocol/meta-keys.ts',
      '../store/store.ts',
    ],
    forbidden: [
      './limits.ts',
      './index.ts',
      '../protocol/jsonrpc.ts',
      '../store/lmdb/store.ts',
      'node:http',
      'undici',
    ],
  },
  {
    file: 'features/transactions/journal.ts',
    allowed: [
      './steps.ts',
      '../feature.ts',
      '../builtin-tool.ts',
      '../../core/call.ts',
      '../../records/actions.ts',
      '../../store/store.ts',
    ],
    forbidden: [
      '../retry.ts',
      '../confirm/confirm.ts',
      '../../protocol/jsonrpc.ts',
      '../../gateway/gateway.ts',
    ],
  },
  {
    file: 'features/events/sinks/webhook.ts',
    allowed: ['./receivers.ts', '../../../core/log.ts', 'node:crypto', 'lru-cache'],
    forbidden: [
      '../../../upstream/connector.ts',
      '../../retry.ts',
      'undici',
      'node:dns/promises',
      'node:net',
    ],
  },
  {
    file: 'features/dialer.ts',
    allowed: ['undici', 'node:dns/promises', 'node:net', '../core/address.ts'],
    forbidden: ['../upstream/transport/http.ts', '../protocol/jsonrpc.ts', 'node:http'],
  },
  {
    file: 'features/index.ts',
    allowed: ['./retry.ts', './transactions/transactions.ts'],
    forbidden: ['../upstream/connector.ts', '../protocol/methods.ts', 'undici'],
  },
  {
    file: 'features/settings.ts',
    allowed: ['../core/settings.ts', './settings/admit.ts', './settings/effect.ts'],
    forbidden: [
      './retry.ts',
      './index.ts',
      './feature.ts',
      './confirm/confirm.ts',
      '../records/approvals.ts',
    ],
  },
  {
    file: 'features/settings/admit.ts',
    allowed: [
      '../../core/settings.ts',
      '../../core/remember.ts',
      '../../core/time/units.ts',
      '../../core/principal.ts',
    ],
    forbidden: [
      '../feature.ts',
      '../limits.ts',
      './describe.ts',
      '../confirm/confirm.ts',
      '../../core/call.ts',
      '../../core/world.ts',
      '../../protocol/meta-keys.ts',
      '../../records/approvals.ts',
      '../../store/store.ts',
    ],
  },
  {
    file: 'downstream/auth/jwt.ts',
    allowed: ['jose', '../../core/error.ts', '../http/fetch-json.ts', './issuer.ts'],
    forbidden: ['undici', '../../config/load.ts', '../../store/store.ts', '../../upstream/connector.ts'],
  },
  {
    file: 'downstream/http/fetch-json.ts',
    allowed: ['undici', '../../core/json/json.ts', './origin.ts'],
    forbidden: ['../../protocol/jsonrpc.ts', 'jose', 'hono', '../../upstream/connector.ts'],
  },
  {
    file: 'downstream/http/endpoint.ts',
    allowed: [
      '../session/session.ts',
      '../stateless.ts',
      '../../protocol/jsonrpc.ts',
      'hono',
      'hono/cors',
      '@hono/node-server',
      'node:http',
    ],
    forbidden: [
      '../../upstream/connector.ts',
      '../../catalog/router.ts',
      '../../features/index.ts',
      '../../records/approvals.ts',
      'undici',
      'yaml',
    ],
  },
  {
    file: 'downstream/pages/approvals.ts',
    allowed: [
      'hono',
      '../../store/store.ts',
      '../../records/approvals.ts',
      '../../core/error.ts',
      '../http/routes.ts',
    ],
    forbidden: [
      '../../store/memory.ts',
      '../../features/retry.ts',
      '../session/session.ts',
      '../../protocol/jsonrpc.ts',
      'undici',
    ],
  },
  {
    file: 'config/load.ts',
    allowed: [
      'yaml',
      '../features/settings.ts',
      '../core/revisions.ts',
      '../core/settings.ts',
      './sections/auth.ts',
      './secrets.ts',
      'node:fs/promises',
    ],
    forbidden: [
      '../features/index.ts',
      '../features/retry.ts',
      '../features/settings/effect.ts',
      '../gateway/gateway.ts',
      '../protocol/jsonrpc.ts',
      'hono',
    ],
  },
  {
    file: 'lint/tools.ts',
    allowed: [
      './assertion.ts',
      '../core/json/json.ts',
      '../protocol/methods.ts',
      '../core/judgement/classify.ts',
    ],
    forbidden: [
      '../catalog/router.ts',
      '../features/index.ts',
      '../gateway/gateway.ts',
      '../upstream/connector.ts',
      'node:fs',
    ],
  },
  {
    file: 'cli/serve.ts',
    allowed: [
      '../gateway/gateway.ts',
      '../config/load.ts',
      '../core/settings.ts',
      './format/plan.ts',
      'node:fs',
    ],
    forbidden: [
      '../upstream/connector.ts',
      '../protocol/jsonrpc.ts',
      '../main.ts',
      '../gateway/keys.ts',
      'undici',
      'yaml',
    ],
  },
  {
    file: 'gateway/gateway.ts',
    allowed: [
      '../upstream/connector.ts',
      '../downstream/http/server.ts',
      '../features/index.ts',
      '../config/load.ts',
      './runtime.ts',
    ],
    forbidden: ['../cli/serve.ts', '../main.ts', 'undici', 'hono', 'node:child_process'],
  },
  {
    file: 'gateway/inspect.ts',
    allowed: ['../core/call.ts', '../features/confirm/rules.ts'],
    forbidden: ['../downstream/stdio.ts', '../store/store.ts', 'jose'],
  },
  {
    file: 'main.ts',
    allowed: ['./cli/serve.ts', './config/user-folders.ts', './store/private-folder.ts'],
    forbidden: ['./gateway/gateway.ts', './protocol/jsonrpc.ts', 'node:child_process'],
  },
  {
    file: 'protocol/sub/deep.ts',
    allowed: ['./near.ts', '../jsonrpc.ts', '../../core/call.ts'],
    forbidden: [
      '../../gateway/gateway.ts',
      '../../upstream/connector.ts',
      '../core/call.ts/../../../upstream/connector.ts',
    ],
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
    file: 'downstream/http/server.ts',
    allowed: ['Date.now()', "process.on('exit', flush)"],
    forbidden: [
      'process.env.HOME',
      'process.stderr.write(text)',
      'process.exit(1)',
      'process.stdout.write(text)',
      'fetch(url)',
      'console.log(text)',
    ],
  },
  {
    file: 'protocol/headers.ts',
    allowed: ['Date.parse(text)'],
    forbidden: ['Date.now()', 'performance.now()'],
  },
  { file: 'config/secrets.ts', allowed: ['process.pid'], forbidden: ['process.env'] },
  {
    file: 'cli/check.ts',
    allowed: ['io.stdout.write(text)'],
    forbidden: [
      'process.env',
      'process.cwd()',
      'process.stdin.pause()',
      'process.stdout.write(text)',
      'process.stderr.write(text)',
      'process.exit(1)',
      'process.exitCode = 1',
    ],
  },
  {
    file: 'cli/io.ts',
    allowed: ['process.env', 'process.stdout.write(text)', 'process.exit(1)'],
    forbidden: [],
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

describe('import rules between folders of src', () => {
  test.each([...imports, ...statements])('$file is reported for each forbidden line', (wall) => {
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
