import type { OxlintOverride } from 'oxlint'

/** One wall: what a folder or file of `src` may import. */
interface Wall {
  /** A folder of `src`, a folder in it, or one file that differs from its folder. */
  readonly part: string
  /** The folders and files of `src` it may import, besides its own. */
  readonly may?: readonly string[]
  /** The packages and Node modules it may import, besides those open to all. */
  readonly uses?: readonly string[]
  /** What of its own folder it may import; everything unless said otherwise. */
  readonly own?: readonly string[]
}

const open = ['lru-cache', 'node:buffer', 'node:crypto', 'node:events', 'node:string_decoder', 'node:util']
const files = ['node:fs', 'node:os', 'node:path', 'node:url']
const sockets = ['node:http', 'node:net', 'node:stream']
const timers = ['node:timers/promises']

const folders = ['core', 'wire', 'store', 'observe', 'bridge', 'catalog', 'upstream', 'features'].concat([
  'documents',
  'records',
  'downstream',
  'config',
  'admin',
])

const walls: readonly Wall[] = [
  { part: 'core' },
  { part: 'core/schema.ts', uses: ['ajv', 'node:module'] },
  { part: 'core/pattern.ts', uses: ['re2js', 'node:module'] },
  { part: 'wire', may: ['core'], uses: ['eventsource-parser'] },
  { part: 'store', may: ['core'], uses: ['lmdb', '@redis/client', 'node:zlib', ...files] },
  { part: 'records', may: ['core', 'store/store.ts'], uses: ['node:os', 'node:fs'] },
  {
    part: 'observe',
    may: ['core', 'wire/extensions.ts', 'wire/methods.ts'],
    uses: ['prom-client', '@opentelemetry', ...files],
  },
  { part: 'documents', may: ['core', 'wire/extensions.ts', 'wire/revisions.ts'] },
  { part: 'bridge', may: ['core', 'wire', 'store/store.ts'], uses: timers },
  { part: 'catalog', may: ['core', 'wire'] },
  { part: 'catalog/packs.ts', may: ['core'], own: ['packs/*.json'] },
  {
    part: 'upstream',
    may: ['core', 'wire', 'bridge/park.ts'],
    uses: ['undici', 'node:child_process', 'node:stream', ...timers, ...files],
  },
  {
    part: 'upstream/credentials',
    may: ['core', 'wire', 'store/store.ts'],
    uses: ['oauth4webapi', 'undici', 'node:dns', 'node:net', ...timers],
  },
  { part: 'upstream/proof.ts', may: ['core', 'wire'], uses: ['jose'] },
  {
    part: 'features',
    may: [
      'core',
      'wire/extensions.ts',
      'wire/filter.ts',
      'wire/gateway-proof.ts',
      'wire/methods.ts',
      'wire/questions.ts',
      'store/store.ts',
      'records',
      'documents',
    ],
    own: [
      'feature.ts',
      'no-undo.ts',
      'own-tool.ts',
      'discovered.ts',
      'list-changes.ts',
      'tool-lists.ts',
      'portrayed.ts',
    ],
  },
  { part: 'features/index.ts' },
  {
    part: 'downstream',
    may: ['core', 'wire', 'bridge', 'documents'],
    uses: ['hono', '@hono/node-server', 'jose', ...sockets, ...timers],
  },
  { part: 'downstream/fetch-json.ts', may: ['core'], uses: ['undici'] },
  { part: 'config', may: ['core', 'features/index.ts', 'wire/revisions.ts'], uses: ['yaml', ...files] },
  {
    part: 'admin',
    may: ['core', 'store/store.ts', 'records', 'observe'],
    uses: ['hono', '@hono/node-server', ...sockets],
  },
  { part: 'lint', may: ['core', 'wire', 'catalog/classify.ts'] },
  {
    part: 'cli',
    may: [
      'gateway.ts',
      'offline.ts',
      'config',
      'core',
      'documents',
      'lint',
      'records',
      'store/store.ts',
      'wire/extensions.ts',
    ],
    uses: ['node:readline', 'node:stream', ...timers, ...files],
  },
  { part: 'cli/health.ts', may: ['config', 'core'], uses: ['undici', 'node:fs'] },
  { part: 'observed.ts', may: ['core', 'observe', 'store/store.ts', 'upstream', 'wire/methods.ts'] },
  { part: 'portraits.ts', may: ['core', 'catalog', 'documents'] },
  { part: 'active.ts', may: ['core', 'features/feature.ts', 'features/index.ts'] },
  { part: 'left.ts', may: ['core', 'active.ts'] },
  {
    part: 'build.ts',
    may: [...folders, 'active.ts', 'errand.ts', 'left.ts', 'observed.ts', 'portraits.ts'],
  },
  { part: 'errand.ts', may: ['core', 'features/feature.ts', 'wire/extensions.ts', 'wire/own-call.ts'] },
  {
    part: 'front-page.ts',
    may: [
      'admin/visitors.ts',
      'records',
      'core',
      'documents',
      'downstream',
      'build.ts',
      'catalog/names.ts',
      'upstream/upstream.ts',
      'wire/own-call.ts',
    ],
  },
  { part: 'inspect.ts', may: ['core', 'features', 'build.ts'] },
  { part: 'anchors.ts', may: ['core', 'observe', 'store/store.ts'], uses: ['node:os'] },
  { part: 'offline.ts', may: ['core', 'observe', 'store', 'anchors.ts'] },
  { part: 'keys.ts', may: ['core', 'store/store.ts'], uses: ['jose'] },
  { part: 'warm.ts', may: ['core', 'store/store.ts', 'build.ts'] },
  {
    part: 'gateway.ts',
    may: [
      ...folders,
      'anchors.ts',
      'build.ts',
      'front-page.ts',
      'inspect.ts',
      'keys.ts',
      'observed.ts',
      'warm.ts',
    ],
    uses: ['node:stream'],
  },
  { part: 'main.ts', may: ['cli', 'gateway.ts', 'config', 'core'] },
]

/** The lint overrides that keep every wall of `src`; a file that no wall names may import nothing. */
export function importWalls(): OxlintOverride[] {
  return [allowOnly('src/**', 'a file that no wall names', []), ...walls.flatMap(overridesOf)]
}

/** The lint overrides for globals that belong to one place of `src`. */
export function globalWalls(): OxlintOverride[] {
  return [
    forbid(['src/**'], [environment, exit, output]),
    forbid(['src/core/**', 'src/wire/**'], [environment, exit, output, date, performance]),
    forbid(['src/config/secrets.ts'], [exit, output]),
    forbid(['src/cli/**', 'src/main.ts'], [environment]),
  ]
}

const environment = property('process', 'env', 'Only config/secrets.ts reads the environment.')
const exit = property('process', 'exit', 'Only cli and main end the process.')
const output = property('process', 'stdout', 'Only cli and main write output.')
const date = property('Date', 'now', 'core and wire read no clock.')
const performance = property('performance', 'now', 'core and wire read no clock.')

function property(object: string, name: string, message: string) {
  return { object, property: name, message }
}

function forbid(paths: string[], properties: readonly object[]): OxlintOverride {
  return { files: paths, rules: { 'no-restricted-properties': ['error', ...properties] } }
}

function overridesOf({ part, may = [], uses = [], own = ['*.ts', '[a-z]*/*.ts'] }: Wall): OxlintOverride[] {
  const packages = uses.concat(open).flatMap((name) => [name, `${name}/**`])
  const reach = (up: string) => may.map((path) => up + (path.endsWith('.ts') ? path : `${path}/**`))
  const within = (folder: string) => own.map((path) => folder + path)
  if (!part.endsWith('.ts') && part.includes('/')) {
    return [allowOnly(`src/${part}/*.ts`, part, ['./*.ts', '../*.ts', ...reach('../../'), ...packages])]
  }
  if (!part.endsWith('.ts')) {
    return [
      allowOnly(`src/${part}/*.ts`, part, [...within('./'), ...reach('../'), ...packages]),
      allowOnly(`src/${part}/*/*.ts`, part, ['./*.ts', ...within('../'), ...reach('../../'), ...packages]),
    ]
  }
  if (!part.includes('/')) return [allowOnly(`src/${part}`, part, [...reach('./'), ...packages])]
  return [allowOnly(`src/${part}`, part, [...within('./'), ...reach('../'), ...packages])]
}

function allowOnly(path: string, who: string, allowed: readonly string[]): OxlintOverride {
  const roundabout = ['./../**', '**/[a-z]*/../**']
  const group = ['**', ...allowed.map((pattern) => `!${pattern}`), ...roundabout]
  const message = `${who} may not import this: see scripts/walls.ts.`
  return { files: [path], rules: { 'no-restricted-imports': ['error', { patterns: [{ group, message }] }] } }
}
