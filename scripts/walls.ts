import { posix } from 'node:path'
import type { OxlintOverride } from 'oxlint'

/** One wall: what a folder or file of `src` may import. */
interface Wall {
  /** A folder of `src`, a folder in it, or one file that differs from its folder. */
  readonly part: string
  /** The folders and files of `src` it may import, in addition to its own. */
  readonly may?: readonly string[]
  /** The packages and Node modules it may import, in addition to the common ones. */
  readonly uses?: readonly string[]
  /** The files of its own folder it may import. Default: all. */
  readonly own?: readonly string[]
}

const open = ['lru-cache', 'node:buffer', 'node:crypto', 'node:events', 'node:string_decoder', 'node:util']
const files = ['node:fs', 'node:os', 'node:path', 'node:url']
const sockets = ['node:http', 'node:net', 'node:stream']
const timers = ['node:timers/promises']

/** All modules that the composition imports. */
const parts = ['core', 'protocol', 'store', 'durable', 'records', 'observability', 'catalog'].concat([
  'upstream',
  'features',
  'descriptions',
  'downstream',
  'config',
])

/** What features import. */
const forFeatures = [
  'core',
  'protocol/gateway-proof.ts',
  'protocol/input-requests.ts',
  'protocol/legacy.ts',
  'protocol/lift.ts',
  'protocol/meta-keys.ts',
  'protocol/methods.ts',
  'protocol/modern.ts',
  'protocol/projection.ts',
  'protocol/dialects.ts',
  'protocol/schema-repair.ts',
  'protocol/subscription-filter.ts',
  'protocol/tasks.ts',
  'store/store.ts',
  'store/blobs/blobs.ts',
  'store/private-folder.ts',
  'durable',
  'records',
  'descriptions',
]

/** The files beside the features that each of them may import. */
const forEachFeature = [
  'feature.ts',
  'offers.ts',
  'own-calls.ts',
  'builtin-tool.ts',
  'describing/documents.ts',
  'dialer.ts',
  'tool-lists.ts',
  'missing-undo.ts',
  'settings/*.ts',
]

/** What the files of a feature with folders of its own import. */
const forNestedFeatures = [...forFeatures, ...forEachFeature.map((file) => `features/${file}`)]

/** What the settings of features import: types, and the schemas and defaults that several of them share. No behaviour. */
const forSettings = [
  'core/setting-schemas.ts',
  'core/settings.ts',
  'core/principal.ts',
  'core/remember.ts',
  'core/time/units.ts',
]

/** What commands import. Those that work on the store do not import the gateway, which takes long to load. */
const forCommands = [
  'testkit',
  'config',
  'core',
  'descriptions',
  'durable/log.ts',
  'gateway/gateway.ts',
  'gateway/offline.ts',
  'lint',
  'observability/audit/anchor.ts',
  'observability/audit/audit.ts',
  'observability/audit/verify.ts',
  'observability/log.ts',
  'observability/worker-metrics.ts',
  'records',
  'store/private-folder.ts',
  'store/store.ts',
]

const packagesOfCommands = ['node:readline', 'node:stream', ...timers, ...files]

const walls: readonly Wall[] = [
  { part: 'core' },
  { part: 'core/address.ts', uses: ['node:net'] },
  { part: 'core/collect.ts', uses: ['node:v8', 'node:vm'] },
  { part: 'core/judgement/classify.ts', may: ['core'], own: ['*.ts', 'packs/*.json'] },
  { part: 'core/proxy.ts', may: ['core'], uses: ['node:net', 'node:url'] },
  { part: 'core/schema/schema.ts', may: ['core'], uses: ['ajv', 'node:module'] },
  { part: 'core/text/pattern.ts', may: ['core'], uses: ['re2js', 'node:module'] },
  { part: 'protocol', may: ['core'], uses: ['eventsource-parser'] },
  { part: 'protocol/content-coding.ts', uses: ['node:stream', 'node:zlib'] },
  { part: 'store', may: ['core'], uses: ['lmdb', '@redis/client', 'node:zlib', ...files] },
  { part: 'durable', may: ['core', 'store/store.ts'], uses: ['node:fs', 'node:os'] },
  {
    part: 'records',
    may: ['core', 'durable', 'store/store.ts', 'store/blobs/blobs.ts'],
  },
  {
    part: 'observability',
    may: [
      'core',
      'protocol/legacy.ts',
      'protocol/meta-keys.ts',
      'protocol/methods.ts',
      'protocol/modern.ts',
      'store/private-folder.ts',
    ],
    uses: ['prom-client', '@opentelemetry', ...files],
  },
  { part: 'observability/audit/anchor.ts', may: ['core', 'store/store.ts'], uses: ['node:os'] },
  { part: 'descriptions', may: ['core'] },
  { part: 'catalog', may: ['core', 'protocol'] },
  {
    part: 'upstream',
    may: ['core', 'protocol'],
    uses: ['undici', 'node:child_process', 'node:stream', ...timers, ...files],
  },
  {
    part: 'upstream/oauth',
    may: ['core', 'protocol', 'durable/lease.ts', 'upstream/transport'],
    uses: ['oauth4webapi', 'undici', 'node:dns', 'node:net', ...timers],
  },
  {
    part: 'upstream/oauth/token-endpoint.ts',
    may: ['core', 'upstream/oauth', 'upstream/transport'],
    uses: ['oauth4webapi', 'jose'],
  },
  {
    part: 'upstream/oauth/dpop.ts',
    may: ['core', 'upstream/oauth', 'upstream/transport'],
    uses: ['oauth4webapi', 'jose'],
  },
  {
    part: 'upstream/oauth/credentials.ts',
    may: ['core', 'protocol', 'upstream/oauth', 'upstream/transport'],
    uses: ['oauth4webapi', 'node:fs/promises', ...timers],
  },
  { part: 'upstream/protocol/gateway-proof.ts', may: ['core', 'protocol', 'upstream'], uses: ['jose'] },
  { part: 'features', may: forFeatures, own: forEachFeature },
  { part: 'features/index.ts' },
  { part: 'features/settings.ts', may: ['core/settings.ts'], own: ['settings/*.ts'] },
  { part: 'features/settings', may: forSettings, own: [] },
  { part: 'features/events', may: forNestedFeatures },
  { part: 'features/references', may: forNestedFeatures },
  {
    part: 'features/references/transfer/files.ts',
    may: [...forNestedFeatures, 'features/references'],
    uses: files,
  },
  {
    part: 'features/references/transfer/sent-file.ts',
    may: forFeatures,
    uses: ['@fastify/busboy', 'node:stream'],
  },
  {
    part: 'features/events/sinks/webhook.ts',
    may: ['core', 'durable', 'features/dialer.ts'],
    own: ['receivers.ts', 'subscription-secrets.ts'],
  },
  { part: 'features/notify', may: forNestedFeatures },
  {
    part: 'features/notify/email.ts',
    may: [...forNestedFeatures, 'features/notify'],
    uses: ['nodemailer', 'node:dns', 'node:net'],
  },
  {
    part: 'features/dialer.ts',
    may: ['core', 'protocol/content-coding.ts'],
    uses: ['undici', 'node:dns', 'node:net', 'node:stream'],
  },
  {
    part: 'downstream',
    may: ['core', 'protocol'],
    uses: ['hono', '@hono/node-server', 'jose', ...sockets, ...timers],
  },
  // The sessions of older clients are in the store.
  ...['downstream/http', 'downstream/session'].map((part) => ({
    part,
    may: ['core', 'protocol', 'downstream', 'records/client-sessions.ts', 'store/store.ts'],
    uses: ['hono', '@hono/node-server', ...sockets, ...timers],
  })),
  { part: 'downstream/http/network.ts', may: [], uses: ['undici', ...sockets] },
  {
    part: 'downstream/http/hop',
    may: [
      'core',
      'protocol/lines.ts',
      'downstream/http/ending.ts',
      'downstream/http/network.ts',
      'records/client-sessions.ts',
    ],
    uses: ['undici', ...sockets],
  },
  {
    part: 'downstream/http/fetch-json.ts',
    may: ['core', 'protocol/content-coding.ts'],
    uses: ['undici'],
  },
  {
    part: 'downstream/pages',
    may: ['core', 'descriptions', 'downstream/http', 'records', 'store/store.ts'],
    uses: ['hono', '@hono/node-server', ...sockets],
  },
  {
    part: 'config',
    may: ['core', 'features/settings.ts', 'features/settings/notify.ts', 'store/private-folder.ts'],
    uses: ['yaml', ...files],
  },
  ...['config/import/parse.ts', 'config/import/edit.ts'].map((part) => ({
    part,
    may: ['core', 'config'],
    uses: ['yaml', 'jsonc-parser', 'smol-toml', ...files],
  })),
  { part: 'lint', may: ['core', 'protocol'] },
  {
    part: 'testkit',
    may: ['core', 'protocol', 'features/mask/mask.ts', 'upstream/transport/transport.ts'],
    uses: timers,
  },
  { part: 'testkit/conformance/client.ts', may: ['core', 'protocol', 'testkit'], uses: ['undici'] },
  {
    part: 'testkit/server-test',
    may: [
      'core',
      'protocol',
      'lint',
      'testkit',
      'features/errors/errors.ts',
      'features/errors/sanitise.ts',
      'upstream/transport/transport.ts',
    ],
  },
  { part: 'testkit/prove/sandbox.ts', may: ['core'], uses: files },
  {
    part: 'testkit/prove/copies.ts',
    may: ['core', 'testkit/prove/sandbox.ts'],
    uses: files,
  },
  { part: 'cli', may: forCommands, uses: packagesOfCommands },
  {
    part: 'cli/approvals-test.ts',
    may: [...forCommands, 'gateway/channel-test.ts'],
    uses: packagesOfCommands,
  },
  { part: 'cli/call.ts', may: [...forCommands, 'gateway/command-call.ts'], uses: packagesOfCommands },
  { part: 'cli/explain.ts', may: [...forCommands, 'gateway/explained.ts'], uses: packagesOfCommands },
  { part: 'cli/doctor.ts', may: [...forCommands, 'gateway/doctor.ts'], uses: packagesOfCommands },
  {
    part: 'cli/check.ts',
    may: [...forCommands, 'downstream/auth/jwt.ts'],
    uses: packagesOfCommands,
  },
  {
    part: 'cli/serve.ts',
    may: [...forCommands, 'downstream/pages/client-snippets.ts'],
    uses: packagesOfCommands,
  },
  {
    part: 'cli/worker.ts',
    may: ['core', 'observability/worker-metrics.ts'],
    uses: ['node:cluster', 'node:net', 'node:stream', ...files],
  },
  {
    part: 'cli/supervisor.ts',
    may: ['core', 'observability/worker-metrics.ts'],
    uses: ['node:cluster', 'node:child_process'],
  },
  {
    part: 'cli/verify.ts',
    may: [...forCommands, 'downstream/http/fetch-json.ts', 'gateway/keys.ts'],
    uses: packagesOfCommands,
  },
  {
    part: 'cli/forget.ts',
    may: [...forCommands, 'gateway/forget.ts', 'observability/audit/forget.ts'],
    uses: packagesOfCommands,
  },
  { part: 'cli/fleet.ts', may: [...forCommands, 'durable/members.ts'], uses: packagesOfCommands },
  { part: 'cli/health.ts', may: ['config', 'core'], uses: ['undici', 'node:fs'] },
  { part: 'gateway', may: parts, uses: ['node:os', 'node:stream'] },
  {
    part: 'gateway/console/calls.ts',
    may: [...parts, 'gateway', 'testkit/conversations.ts'],
  },
  { part: 'gateway/keys.ts', may: ['core', 'store/store.ts'], uses: ['jose'] },
  { part: 'gateway/placements.ts', may: parts, uses: ['node:http'] },
  { part: 'gateway/fleet.ts', may: parts, uses: ['node:net', ...files] },
  {
    part: 'gateway/features.ts',
    may: ['core', 'features/feature.ts', 'features/index.ts'],
  },
  {
    part: 'gateway/observers.ts',
    may: ['core', 'observability', 'store/store.ts', 'upstream', 'protocol/methods.ts'],
  },
  { part: 'gateway/inspect.ts', may: ['core', 'features'] },
  {
    part: 'gateway/doctor.ts',
    may: ['core', 'upstream/connector.ts'],
    uses: [
      'undici',
      'node:dns/promises',
      'node:http',
      'node:https',
      'node:net',
      'node:tls',
      ...timers,
      ...files,
    ],
  },
  { part: 'gateway/offline.ts', may: ['core', 'observability', 'store'] },
  {
    part: 'main.ts',
    may: ['cli', 'config/user-folders.ts', 'store/private-folder.ts'],
    uses: ['node:module', 'node:path', 'node:v8'],
    own: [],
  },
]

/** The lint overrides for all walls of `src`; a file without a wall may import nothing. */
export function importWalls(): OxlintOverride[] {
  return [allowOnly('src/**', 'a file that no wall names', []), ...walls.flatMap(overridesOf)]
}

/** The lint overrides for globals that only one module may use. */
export function globalWalls(): OxlintOverride[] {
  return [
    forbid(['src/**'], [...ofProcess, parse]),
    forbid(['src/core/**', 'src/protocol/**'], [...ofProcess, parse, date, performance]),
    forbid(['src/core/world.ts'], [...ofProcess, parse]),
    forbid(['src/core/json/read.ts'], [...ofProcess, date, performance]),
    forbid(['src/cli/io.ts', 'src/main.ts'], [parse]),
  ]
}

/** What several commands in one process may not share. */
const ofProcess = ['env', 'cwd', 'stdin', 'stdout', 'stderr', 'exit', 'exitCode'].map((name) =>
  property(
    'process',
    name,
    'Commands get it with their Io: only cli/io.ts and main.ts take it from the process.',
  ),
)
const parse = property('JSON', 'parse', 'It rounds long numbers: core/json/read.ts has the reader.')
const date = property('Date', 'now', 'core and protocol read no clock.')
const performance = property('performance', 'now', 'core and protocol read no clock.')

function property(object: string, name: string, message: string) {
  return { object, property: name, message }
}

function forbid(paths: string[], properties: readonly object[]): OxlintOverride {
  return { files: paths, rules: { 'no-restricted-properties': ['error', ...properties] } }
}

function overridesOf({ part, may = [], uses = [], own = ['*.ts', '[a-z]*/*.ts'] }: Wall): OxlintOverride[] {
  const folder = part.endsWith('.ts') ? posix.dirname(part) : part
  const packages = uses.concat(open).flatMap((name) => [name, `${name}/**`])
  const inside = own.map((path) => posix.join(folder, path))
  const others = may.flatMap((path) =>
    path.endsWith('.ts') ? [path] : [`${path}/*.ts`, `${path}/[a-z]*/**`],
  )
  const from = (place: string) =>
    [...inside, ...others].map((path) => specifier(place, path)).concat(packages)
  if (folder !== part) return [allowOnly(`src/${part}`, part, from(folder))]
  return [
    allowOnly(`src/${part}/*.ts`, part, from(part)),
    allowOnly(`src/${part}/*/*.ts`, part, ['./*.ts', ...from(`${part}/*`)]),
  ]
}

/** The import specifiers of `path` in a file in the folder `place` of `src`. */
function specifier(place: string, path: string): string {
  const relative = posix.relative(place, path)
  return relative.startsWith('.') ? relative : `./${relative}`
}

function allowOnly(path: string, who: string, allowed: readonly string[]): OxlintOverride {
  const roundabout = ['./../**', '**/[a-z]*/../**']
  const group = ['**', ...allowed.map((pattern) => `!${pattern}`), ...roundabout]
  const message = `${who} may not import this: see scripts/walls.ts.`
  return { files: [path], rules: { 'no-restricted-imports': ['error', { patterns: [{ group, message }] }] } }
}
