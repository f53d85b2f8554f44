/**
 * URLs of Redis and Valkey: one server, the sentinels of a master, or the nodes of a cluster.
 *
 *     redis://user:password@host:6379/0
 *     redis+sentinel://user:password@host1:26379,host2:26379/mymaster/0?sentinel-pass=…
 *     redis+cluster://user:password@host1:6379,host2:6379
 *
 * With `rediss` in place of `redis`, every connection uses TLS.
 */

/** What a URL of Redis says. */
export interface RedisLocation {
  readonly kind: RedisKind
  /** The servers, or those to ask where the master is. */
  readonly hosts: readonly [RedisHost, ...RedisHost[]]
  /** The name by which the sentinels know the master. */
  readonly master: string
  readonly database: number
  readonly isTls: boolean
  /** Credentials of the servers with data. */
  readonly login: RedisLogin
  readonly sentinelLogin: RedisLogin
  /** Files in PEM for TLS: who signed the servers, and the client certificate with its key. */
  readonly files: Readonly<Partial<Record<'ca' | 'cert' | 'key', string>>>
  /** How many replicas have to confirm what must not get lost, or `auto` for one if there is one; absent for the default. */
  readonly replicas?: number | 'auto'
  /** The URL without credentials and parameters. */
  readonly address: string
}

type RedisKind = 'server' | 'sentinel' | 'cluster'

export interface RedisHost {
  readonly host: string
  readonly port: number
}

export interface RedisLogin {
  readonly username?: string
  readonly password?: string
}

/** How URLs of Redis begin, as a source of a regular expression. */
export const REDIS_SCHEMES = 'rediss?(?:\\+sentinel|\\+cluster)?:'

const SCHEME = new RegExp(`^${REDIS_SCHEMES}`)
const SHAPE = new RegExp(`^(${REDIS_SCHEMES})//([^/?#]*@)?([^/?#]*)([^?#]*)(?:\\?([^#]*))?$`)

const ports: Readonly<Record<RedisKind, number>> = { server: 6379, sentinel: 26379, cluster: 6379 }
const examples: Readonly<Record<RedisKind, string>> = {
  server: 'redis://127.0.0.1:6379',
  sentinel: 'redis+sentinel://host1:26379,host2:26379/mymaster',
  cluster: 'redis+cluster://host1:6379,host2:6379',
}

/** The names of the parameters that every URL may have. They are those of the lines of redis.conf. */
const fileParameters = { ca: 'tls-ca-cert-file', cert: 'tls-cert-file', key: 'tls-key-file' } as const
const parameters = [...Object.values(fileParameters), 'replicas']
const sentinelParameters = ['sentinel-user', 'sentinel-pass']

/** The most replicas that can be waited for. */
const MAX_REPLICAS = 9

/** Whether a text is meant to be a URL of Redis. */
export function isRedisUrl(text: string): boolean {
  return SCHEME.test(text)
}

/** Whether a URL of Redis contains a password or a user. */
export function hasRedisLogin(text: string): boolean {
  return text.includes('@') || /[?&]sentinel-(?:user|pass)=/.test(text)
}

/** Whether it contains a password. */
export function hasRedisPassword(text: string): boolean {
  return /\/\/[^/@]*:[^/@]+@|[?&]sentinel-pass=./.test(text)
}

/** Reads a URL of Redis. @throws Error with what is wrong with it, which contains nothing of it that may be secret */
export function readRedisUrl(text: string): RedisLocation {
  const [, scheme = '', login = '', authority = '', path = '', query = ''] = SHAPE.exec(text) ?? []
  const kind = scheme.includes('sentinel') ? 'sentinel' : scheme.includes('cluster') ? 'cluster' : 'server'
  const isTls = scheme.startsWith('rediss')
  const hosts = authority.split(',').map((each) => hostOf(each, ports[kind]))
  const [first, ...others] = hosts
  const isComplete = first !== undefined && hosts.every(({ port }) => port > 0)
  if (!isComplete || (kind === 'server' && others.length > 0))
    throw new Error(`must be a URL such as ${examples[kind]}`)
  const found = new URLSearchParams(query)
  checkParameters(found, kind)
  return {
    kind,
    hosts: [first, ...others],
    ...readPath(path, kind),
    isTls,
    login: readLogin(login.slice(0, -1)),
    sentinelLogin: loginOf(found.get('sentinel-user'), found.get('sentinel-pass')),
    files: readFiles(found, isTls),
    ...readReplicas(found.get('replicas')),
    address: `${scheme}//${authority}${path === '/' ? '' : path}`,
  }
}

/** A host with its port, which is 0 if the text is none. */
function hostOf(text: string, port: number): RedisHost {
  const url = `redis://${text}`
  if (text === '' || !URL.canParse(url)) return { host: '', port: 0 }
  const { hostname, port: given } = new URL(url)
  return { host: hostname.replaceAll(/^\[|\]$/g, ''), port: hostname === '' ? 0 : Number(given || port) }
}

/** The database, and the name of the master before it. */
function readPath(path: string, kind: RedisKind): Pick<RedisLocation, 'master' | 'database'> {
  const [, name = '', number = ''] = /^(?:\/(.*?))??(?:\/(\d*))?$/.exec(path) ?? [undefined, path]
  if (kind === 'cluster' && (name !== '' || Number(number) !== 0))
    throw new Error(`must have no database: a cluster has one, as in ${examples.cluster}`)
  if (kind === 'server' && name !== '')
    throw new Error('must give the database by its number, as in redis://127.0.0.1:6379/1')
  if (kind !== 'sentinel') return { master: '', database: Number(number) }
  // A name of digits alone is a name if nothing precedes it.
  const master = decoded(name === '' ? number : name)
  if (master === '' || master.includes('/'))
    throw new Error(`must name the master as the sentinels do, as in ${examples.sentinel}`)
  return { master, database: name === '' ? 0 : Number(number) }
}

function readLogin(text: string): RedisLogin {
  const end = text.indexOf(':')
  const username = end === -1 ? text : text.slice(0, end)
  return loginOf(decoded(username), end === -1 ? undefined : decoded(text.slice(end + 1)))
}

function loginOf(username: string | null, password: string | null | undefined): RedisLogin {
  return { ...(username && { username }), ...(password && { password }) }
}

function decoded(text: string): string {
  // An unescaped character would otherwise be reported only when the store connects.
  const problem = new Error('has a % in its name or password, which must be written as %25')
  if (!/^([^%]|%[0-9a-f]{2})*$/i.test(text)) throw problem
  try {
    return decodeURIComponent(text)
  } catch {
    throw problem
  }
}

function checkParameters(found: URLSearchParams, kind: RedisKind): void {
  const known = kind === 'sentinel' ? [...parameters, ...sentinelParameters] : parameters
  if ([...found.keys()].some((name) => !known.includes(name)))
    throw new Error(`has an unknown parameter after the question mark; known are ${known.join(', ')}`)
}

function readFiles(found: URLSearchParams, isTls: boolean): RedisLocation['files'] {
  const { ca, cert, key } = fileParameters
  const files = Object.entries(fileParameters).flatMap(([use, name]) => {
    const file = found.get(name)
    return file ? [[use, file] as const] : []
  })
  if (files.length > 0 && !isTls)
    throw new Error(`has ${ca}, ${cert} or ${key}, which are for URLs that begin with rediss`)
  if (found.has(cert) !== found.has(key)) throw new Error(`must have both ${cert} and ${key}, or neither`)
  return Object.fromEntries(files)
}

function readReplicas(text: string | null): Pick<RedisLocation, 'replicas'> {
  if (text === null) return {}
  if (text === 'auto') return { replicas: text }
  if (!/^\d$/.test(text))
    throw new Error(`must have auto or a whole number from 0 to ${MAX_REPLICAS} as replicas`)
  return { replicas: Number(text) }
}
