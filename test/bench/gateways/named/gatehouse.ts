import { existsSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Gateway, Setup } from '../gateway.ts'
import { signedToken } from '../token.ts'

const main = fileURLToPath(new URL('../../../../dist/main.js', import.meta.url))

/** Gatehouse as it comes, with nothing on, with what guards calls, and with a key for each call. */
export const gatehouses: readonly Gateway[] = [
  gatehouse('gatehouse', 'Gatehouse, out of the box', {
    configuration: 'A configuration that names the server and nothing else.',
    config: ({ upstream }) => named(upstream),
  }),
  gatehouse('gatehouse-reads', 'Gatehouse, out of the box, a tool that reads', {
    configuration: 'The same; the tool that is called says that it only reads, and `trust` believes it.',
    config: ({ upstream }) => named({ ...upstream, trust: true }),
    tool: 'get_text',
    parts: ['speed'],
  }),
  gatehouse('gatehouse-keyed', 'Gatehouse, out of the box, calls with keys', {
    configuration:
      'The same; each call has an idempotency key of its own in `_meta`, and a caller may have more than 1,000 of them.',
    config: ({ upstream }) => named(upstream, { features: { idempotency: manyKeys } }),
    isKeyed: true,
    parts: ['speed'],
  }),
  gatehouse('gatehouse-guarded', 'Gatehouse, guarded', {
    configuration:
      'Out of the box, and bearer tokens with scopes, rates, a limit of calls at once, metrics and the audit log.',
    config: ({ upstream, folder }) => named({ ...upstream, trust: true }, guarded(folder)),
    token: () =>
      signedToken({ iss: issuer, aud: 'bench', sub: 'load', scope: 'read:bench write:bench' }, secret),
    parts: ['speed'],
  }),
  gatehouse('gatehouse-none', 'Gatehouse, `features: none`', {
    configuration: 'The same with `features: none`: it relays and translates, and protects nothing.',
    config: ({ upstream }) => named(upstream, { features: 'none' }),
  }),
  gatehouse('gatehouse-stdio', 'Gatehouse, out of the box', {
    configuration: 'A configuration that names the command of the server and nothing else.',
    config: ({ upstream }) => named(upstream),
    transport: 'stdio',
  }),
]

const manyKeys = { max_keys: 1_000_000, max_bytes: '10GB', ttl: '60s' }

const issuer = 'https://issuer.example.com'
const secret = 'the key of the benchmark, at least 32 characters'

function guarded(folder: string): object {
  return {
    auth: { development: true, jwt: { issuer, audience: 'bench', secret, algorithms: ['HS256'] } },
    limits: { rate: ['1000000/second', '100000000/day'], concurrency: 1000 },
    observe: { metrics: 'on', audit: { file: `${folder}/audit.jsonl` } },
    features: { permissions: 'on', validate: 'on' },
  }
}

function named(server: object, more: object = {}): string {
  return JSON.stringify({ upstreams: { bench: server }, ...more })
}

type Kind = Pick<Gateway, 'configuration' | 'isKeyed' | 'tool' | 'parts'> & {
  readonly config: (setup: Setup) => string
  readonly token?: () => string
  readonly transport?: 'stdio'
}

function gatehouse(name: string, title: string, { config, token, ...kind }: Kind): Gateway {
  return {
    name,
    title,
    source: 'this repository',
    transport: 'http',
    ...kind,
    async install() {
      if (!existsSync(main)) throw new Error('`dist` is not built')
    },
    command(setup) {
      const file = `${setup.folder}/gateway.config.yaml`
      writeFileSync(file, config(setup))
      const words = [process.execPath, main, 'serve', '--config', file, '--port', `${setup.port}`]
      return { words, path: '/mcp', ...(token && { token: token() }) }
    },
  }
}
