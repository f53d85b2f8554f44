// The configurations of the gateways that are measured.
import { createHmac } from 'node:crypto'

/** What stands behind a gateway under test: the address of an HTTP server, or the words of a command. */
export type Upstream = { readonly url: string } | { readonly command: readonly string[] }

/**
 * What a gateway does with what it passes on: nothing; what it does where a configuration names nothing but its servers;
 * it knows its callers, checks and audits each call; calls with keys are made once, with a record in memory, on disk or in
 * Redis, and nothing else; all there is; or it relays large results, or keeps them.
 */
export type Setup =
  | 'none'
  | 'default'
  | 'guarded'
  | 'keyed-memory'
  | 'keyed-disk'
  | 'keyed-redis'
  | 'everything'
  | 'relaying'
  | 'keeping'

/** Where a gateway keeps what it writes, and what its build knows. */
export interface Premises {
  readonly folder: string
  /** The names of all features. */
  readonly features: readonly string[]
  /** The store of `keyed-redis`. */
  readonly redisUrl?: string | undefined
}

/** Whether callers have to say who they are. */
export function isProtected(setup: Setup): boolean {
  return setup === 'guarded' || setup === 'everything'
}

/**
 * The config file of a gateway under test. Earlier builds get the same, so it has only settings that gateways have had for
 * long, and names no other features than those of its build.
 */
export function gatewayConfig(upstream: Upstream, setup: Setup, premises: Premises): string {
  const address = 'url' in upstream ? { url: upstream.url } : { command: upstream.command }
  const upstreams = { bench: { ...address, ...(setup !== 'default' && { trust: true }) } }
  // JSON is YAML: no address or path can break out of its quotes.
  return JSON.stringify({ version: 1, upstreams, ...settingsOf(setup, premises) }) + '\n'
}

function settingsOf(setup: Setup, { folder, features, redisUrl }: Premises): object {
  const allOff = Object.fromEntries(features.map((name) => [name, 'off']))
  // A store on the disk that temporary files are on, as any other.
  const quiet = { store: `${folder}/store`, observe: { metrics: 'off' } }
  const keyed = { ...quiet, features: { ...allOff, idempotency: manyKeys } }
  switch (setup) {
    case 'none':
      return { features: 'none', observe: { metrics: 'off' } }
    case 'default':
      return {}
    case 'guarded':
      return { ...protectedBy(folder), features: { ...allOff, ...checks } }
    case 'keyed-memory':
      return { ...keyed, store: 'memory' }
    case 'keyed-disk':
      return keyed
    case 'keyed-redis':
      return { ...keyed, store: redisUrl }
    case 'everything':
      return { ...protectedBy(folder), meta_tools: 'listed', features: { ...checks, ...talkative } }
    case 'relaying':
      return { ...quiet, ...largeResults, features: allOff }
    case 'keeping':
      return { ...quiet, ...largeResults, features: { ...allOff, references: 'on' } }
  }
}

/** For more keys than one caller ever has. */
const manyKeys = { max_keys: 1_000_000, max_bytes: '10GB', ttl: '60s' }

/** No result of a usual size is shortened. */
const largeResults = { limits: { result: '256MB' } }

const checks = { permissions: 'on', validate: 'on', errors: 'on' }

/** What does nothing, or less, unless a configuration asks for it; no call reaches a limit. */
const talkative = {
  agent_profile: 'on',
  structured_text: 'on',
  complete: 'on',
  manifest: { inline: '1MB' },
  cost: { budget: { units: 1_000_000_000, per: 'day', label: 'credits' } },
  provenance: { hash: 'on' },
  intent: { mode: 'advise', across: 'on' },
  mask: { rules: [{ pattern: 'xyzzy', replace: '***' }] },
  validate: { output: 'warn' },
  transactions: { uncompensable: 'allow' },
  idempotency: manyKeys,
}

const issuer = 'https://issuer.example.com'
const secret = 'the key of the benchmark, at least 32 characters'

function protectedBy(folder: string) {
  return {
    auth: { development: true, jwt: { issuer, audience: 'bench', secret, algorithms: ['HS256'] } },
    limits: { rate: ['1000000/second', '100000000/day'], concurrency: 1000 },
    observe: { metrics: 'on', audit: { file: `${folder}/audit.jsonl` } },
  }
}

/** A token that a protected gateway takes, with the scopes that its tools need. */
export function bearer(): string {
  const now = Math.floor(Date.now() / 1000)
  const claims = {
    iss: issuer,
    aud: 'bench',
    sub: 'load',
    iat: now,
    exp: now + 86_400,
    scope: 'read:bench write:bench',
  }
  const signed = [{ alg: 'HS256', typ: 'JWT' }, claims].map(encoded).join('.')
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}
