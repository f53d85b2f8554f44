import { createHash, generateKeyPairSync, scryptSync } from 'node:crypto'
import { resolved } from '../../src/config/schema-lookup.ts'
import type { Canaries } from './canary.ts'
import { isObject, type Json } from './server/json.ts'

/** What the gateway of the configuration has around it. */
interface Around {
  /** Servers that tell what they get; `broken` answers nothing else. */
  readonly legacy: string
  readonly modern: string
  readonly broken: string
  readonly child: readonly string[]
  /** Where tokens are asked about, and where the gateway gets its own. */
  readonly issuer: string
  readonly collector: string
  readonly audit: string
}

/** The issuer of signed tokens. */
export const issuerName = 'https://idp.example.com'

/** A configuration with a recognisable secret in every place that takes one. */
export function canaryConfig(canaries: Canaries, around: Around): Json {
  const of = (slot: string): string => canaries.of(slot)
  const tokenSalt = of('token-salt')
  const passwordSalt = of('password-salt')
  const tokenDigest = createHash('sha256')
    .update(tokenSalt + of('opaque-token'))
    .digest('hex')
  const passwordDigest = scryptSync(of('password'), passwordSalt, 32).toString('hex')
  const calls = {
    revision: '2025-11-25',
    tools: { hang: { timeout: '500ms', retry: 0 }, '*': { confirm: 'never' } },
  }
  return {
    listen: { port: 0, legacy_sse: true },
    limits: { rate: 'off' },
    // The store never answers, so it is never known whether writes are paused.
    features: { events: 'on', errors: { hide_details: true }, pause_writes: 'off' },
    events: hooks('hook', canaries),
    notify: channels(canaries),
    auth: {
      development: true,
      jwt: {
        issuer: issuerName,
        audience: 'gateway',
        secret: of('jwt-secret'),
        client_id: 'pages',
        client_secret: of('pages-secret'),
      },
      opaque: {
        introspect: {
          url: `${around.issuer}/introspect`,
          client_id: 'gateway',
          client_secret: of('introspect-secret'),
          require_audience: false,
        },
        tokens: [{ hash: canaries.add('token-hash', `sha256:${tokenSalt}:${tokenDigest}`), id: 'robot' }],
      },
      basic: {
        users: [
          {
            name: 'prometheus',
            password_hash: canaries.add('password-hash', `scrypt:${passwordSalt}:${passwordDigest}`),
          },
        ],
      },
    },
    store: `redis://gate:${of('store-password')}@127.0.0.1:9/0`,
    observe: {
      traces: { endpoint: around.collector, headers: { 'x-api-key': of('traces-header') } },
      metrics_export: { endpoint: around.collector, headers: { 'x-api-key': of('metrics-header') } },
      audit: { file: around.audit, key: of('audit-key') },
    },
    upstreams: {
      header: {
        url: around.legacy,
        headers: { 'x-api-key': of('header') },
        events: hooks('server-hook', canaries),
        ...calls,
      },
      token: { url: around.modern, token: of('token'), ...calls, revision: '2026-07-28' },
      broken: { url: around.broken, headers: { Authorization: `Bearer ${of('broken-header')}` }, ...calls },
      away: {
        url: 'http://127.0.0.1:9/mcp',
        token: of('away-token'),
        proxy: `http://gate:${of('proxy-password')}@127.0.0.1:9`,
      },
      granted: {
        url: around.legacy,
        oauth: {
          client_id: 'gateway',
          client_secret: of('client-secret'),
          token_endpoint: `${around.issuer}/token`,
        },
        ...calls,
      },
      signed: {
        url: around.legacy,
        oauth: {
          client_id: 'gateway',
          private_key: canaries.add('client-key', privateKey()),
          token_endpoint: `${around.issuer}/token`,
        },
        ...calls,
      },
      managed: {
        url: around.legacy,
        oauth: managedBy(around, { client_secret: of('provider-secret') }),
        ...calls,
      },
      keyed: {
        url: around.legacy,
        oauth: managedBy(around, { private_key: canaries.add('provider-key', privateKey()) }),
        ...calls,
      },
      child: {
        command: around.child,
        env: { API_KEY: `${of('child-env')}\n${of('child-second-line')}` },
        ...calls,
      },
      missing: { command: ['/nowhere/at-all'], env: { API_KEY: of('missing-env') } },
    },
  }
}

function privateKey(): string {
  const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return String(key.export({ type: 'pkcs8', format: 'pem' }))
}

/** Authorization that an identity provider manages, to which the gateway authenticates by `client`. */
function managedBy({ issuer, child: [file = ''] }: Around, client: Json): Json {
  return {
    client_id: 'gateway',
    token_endpoint: `${issuer}/token`,
    identity_provider: {
      client_id: 'gateway',
      token_endpoint: `${issuer}/token`,
      subject_token_file: file,
      ...client,
    },
  }
}

/** Events of webhooks: one with a secret, and one with several. */
function hooks(name: string, canaries: Canaries): Json {
  const hook = (secret: unknown): Json => ({ hook: { form: 'github', secret } })
  return { one: hook(canaries.of(name)), several: hook([canaries.of(`${name}-before`)]) }
}

/** A channel of each kind, to which nothing can be sent. */
function channels(canaries: Canaries): Json {
  const url = (slot: string): string =>
    canaries.add(slot, `http://127.0.0.1:9/${canaries.of(`${slot}-path`)}`)
  const secret = canaries.add(
    'channel-secret',
    `whsec_${Buffer.from(canaries.of('channel-key')).toString('base64')}`,
  )
  const email = { host: '127.0.0.1', port: 9, from: 'g@example.com', to: 'o@example.com', user: 'gate' }
  return {
    channels: {
      hook: { webhook: { url: url('channel-hook'), secret } },
      chat: { slack: { url: url('channel-chat') } },
      push: { ntfy: { url: url('channel-push'), token: canaries.of('channel-token') } },
      mail: { email: { ...email, password: canaries.of('channel-password') } },
    },
  }
}

/** Every place of a configuration that takes a secret, such as `upstreams.*.env.*`. */
export function secretSlots(schema: Json, root = schema, path = '', seen: readonly Json[] = []): Set<string> {
  const own = resolved(schema, root)
  if (seen.includes(own)) return new Set()
  const inner = (part: unknown, at: string): string[] =>
    isObject(part) ? [...secretSlots(part, root, at, [...seen, own])] : []
  const { properties, additionalProperties, items } = own
  const branches = [own['anyOf'], own['oneOf'], own['allOf']].flat()
  return new Set([
    ...(own['x-secret'] === true ? [path] : []),
    ...(isObject(properties) ? Object.entries(properties) : []).flatMap(([key, part]) =>
      inner(part, `${path}.${key}`),
    ),
    ...inner(additionalProperties, `${path}.*`),
    ...inner(items, `${path}[]`),
    ...branches.flatMap((part) => inner(part, path)),
  ])
}

/** The places of `slots` that hold a recognisable secret in a configuration. */
export function filledSlots(config: Json, slots: ReadonlySet<string>, canaries: Canaries): Set<string> {
  return new Set(
    [...slots].filter((slot) =>
      valuesAt(config, slot).some((value) => canaries.in(String(value)).length > 0),
    ),
  )
}

function valuesAt(config: unknown, slot: string): readonly unknown[] {
  const steps = slot.replaceAll('[]', '.[]').split('.').slice(1)
  return steps.reduce<unknown[]>(
    (values, step) =>
      values.flatMap((value) => {
        if (step === '[]') return Array.isArray(value) ? (value as unknown[]) : []
        if (!isObject(value)) return []
        return step === '*' ? Object.values(value) : [value[step]]
      }),
    [config],
  )
}
