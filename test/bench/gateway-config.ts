import { createHmac } from 'node:crypto'

/** What stands behind a gateway under test: the address of an HTTP server, or the words of a command. */
export type Upstream = { readonly url: string } | { readonly command: readonly string[] }

/**
 * What a gateway does to what it passes on: it guards each call and nothing else, or with all it does by default;
 * nothing; calls with keys are made once and nothing else; what it does by default, with or without what makes actions
 * safe; or relays large results, or keeps them.
 */
export type Guard = 'guarded' | 'full' | 'off' | 'keyed' | 'safe' | 'plain' | 'relaying' | 'keeping'

/** Whether callers have to say who they are, and each call is logged. */
export function isGuarded(guard: Guard): boolean {
  return guard === 'guarded' || guard === 'full'
}

const issuer = 'https://issuer.example.com'
const secret = 'the key of the benchmark, at least 32 characters'

/**
 * The config file of the gateway under test, in front of an upstream whose word about its tool is believed. One that
 * does all there is to do has it twice, as `bench` and, without what describes servers, as `undescribed`. It names no
 * features but those given, and settings that gateways have had for long.
 */
export function gatewayConfig(
  upstream: Upstream,
  guard: Guard,
  { folder, features }: { readonly folder: string; readonly features: readonly string[] },
): string {
  const allOff = Object.fromEntries(features.map((name) => [name, 'off' as const]))
  const bench = { ...upstream, trust: true }
  const upstreams = {
    bench,
    ...(guard === 'full' && { undescribed: { ...bench, features: descriptionsOff } }),
  }
  // JSON is YAML: no address or path can break out of its quotes.
  return JSON.stringify({ upstreams, ...settingsOf(guard, folder, allOff) }) + '\n'
}

function settingsOf(guard: Guard, folder: string, allOff: Readonly<Record<string, 'off'>>): object {
  if (guard === 'full') return guarded(folder)
  if (guard === 'guarded') return { ...guarded(folder), features: { ...allOff, ...guards } }
  if (guard === 'off') return bare
  // A store on the disk that temporary files are on, as any other.
  const common = { store: `${folder}/store`, observe: { metrics: 'off' } }
  if (guard === 'relaying') return { ...common, ...largeResults, features: allOff }
  if (guard === 'keeping') return { ...common, ...largeResults, features: { ...allOff, references: 'on' } }
  if (guard === 'keyed') return { ...common, features: { ...allOff, idempotency: room } }
  return guard === 'safe' ? common : { ...common, features: safeOff }
}

const safeOff = { idempotency: 'off', transactions: 'off', confirm: 'off', undo: 'off' }
const descriptions =
  'manifest dashdash help skills agent_profile contract quota usage cost intent discovery complete multimodal provenance receipts'
const descriptionsOff = Object.fromEntries(descriptions.split(' ').map((name) => [name, 'off']))
/** For more keys than one caller ever has. */
const room = { max_keys: 1_000_000, max_bytes: '10GB', ttl: '60s' }

/** No result is shortened. */
const largeResults = { limits: { result: '1GB' } }

const guards = { permissions: 'on', validate: 'on', errors: 'on' }

const bare = { features: 'none', observe: { metrics: 'off' } }

function guarded(folder: string) {
  return {
    auth: { development: true, jwt: { issuer, audience: 'bench', secret, algorithms: ['HS256'] } },
    limits: { rate: ['1000000/second', '100000000/day'], concurrency: 1000 },
    features: guards,
    observe: { metrics: 'on', audit: { file: `${folder}/audit.jsonl` } },
  }
}

/** A token the guarded gateway takes, with the scopes its tools need. */
export function bearer(): string {
  const now = Math.floor(Date.now() / 1000)
  const claims = {
    iss: issuer,
    aud: 'bench',
    sub: 'load',
    iat: now,
    exp: now + 86_400,
    scope: 'read:bench read:undescribed',
  }
  const signed = [{ alg: 'HS256', typ: 'JWT' }, claims].map(encoded).join('.')
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}
