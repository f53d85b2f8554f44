import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { request } from 'undici'
import { urlOf, type Gateway, type Setup } from '../gateway.ts'
import { folderOf, installPython } from '../install.ts'
import { signedToken } from '../token.ts'

const one = { name: 'mcp-contextforge-gateway', version: '1.1.0' }
const secret = 'the key of the benchmark, at least 32 characters'
const admin = 'admin@example.com'
const START_LIMIT_MS = 60_000

/** IBM ContextForge, which keeps its servers in a database and is asked with a token. */
export const contextForge: Gateway = {
  name: 'contextforge',
  title: 'IBM ContextForge',
  source: 'PyPI `mcp-contextforge-gateway==1.1.0`',
  transport: 'http',
  configuration:
    'As its quick start says, with SQLite, the server registered by `POST /gateways`; without the rate limit, which is 100 calls a minute, and only warnings logged.',
  install: () => installPython(one, 12),
  command: (setup) => ({
    words: [join(folderOf(one), 'bin', 'mcpgateway'), '--host', '127.0.0.1', '--port', `${setup.port}`],
    env: {
      JWT_SECRET_KEY: secret,
      AUTH_ENCRYPTION_SECRET: `${secret} too`,
      BASIC_AUTH_PASSWORD: `Bench-${randomUUID()}`,
      PLATFORM_ADMIN_PASSWORD: `Bench-${randomUUID()}`,
      DEFAULT_USER_PASSWORD: `Bench-${randomUUID()}`,
      PLATFORM_ADMIN_EMAIL: admin,
      DATABASE_URL: `sqlite:///${setup.folder}/mcp.db`,
      LOG_LEVEL: 'WARNING',
      // Otherwise 100 calls a minute.
      RATE_LIMITING_ENABLED: 'false',
      // A server on loopback is refused otherwise.
      SSRF_ALLOW_LOCALHOST: 'true',
    },
    path: '/mcp',
    token: token(),
  }),
  prepare: register,
}

/** Registers the server, once the gateway answers. @throws Error if it is refused */
async function register({ port, upstream }: Setup, hasExited: () => boolean): Promise<void> {
  const limit = performance.now() + START_LIMIT_MS
  const body = JSON.stringify({ name: 'bench', url: urlOf(upstream), transport: 'STREAMABLEHTTP' })
  const headers = { authorization: `Bearer ${token()}`, 'content-type': 'application/json' }
  for (;;) {
    const answer = await request(`http://127.0.0.1:${port}/gateways`, {
      method: 'POST',
      headers,
      body,
    }).catch(() => undefined)
    const text = await answer?.body.text()
    if (answer && answer.statusCode < 300) return
    if (answer || hasExited() || performance.now() > limit)
      throw new Error(`POST /gateways answered ${answer?.statusCode}: ${text?.slice(0, 500)}`)
    await pause(100)
  }
}

function token(): string {
  const identity = {
    sub: admin,
    username: admin,
    iss: 'mcpgateway',
    aud: 'mcpgateway-api',
    jti: randomUUID(),
  }
  // All teams of an administrator.
  return signedToken({ ...identity, teams: null, is_admin: true }, secret)
}
