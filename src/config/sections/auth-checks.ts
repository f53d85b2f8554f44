/** Checks of `auth`, and of approvals that depend on it. */
import { isObject } from '../../core/json/json.ts'
import { isConfidentialUrl, isLoopbackHost } from '../../core/address.ts'
import { isHttpUrl } from '../names.ts'
import type { Checked, Finding } from '../problem.ts'
import { holdsPassword } from '../configured-secrets.ts'

type Values = Readonly<Record<string, unknown>>
type Path = readonly string[]

/** Checks `auth` for consistency, also with the listen address and the profile. */
export function checkAuth({ auth, listen, profile }: Values): Checked {
  const values = isObject(auth) ? auth : {}
  const address = isObject(listen) ? listen : {}
  const problems = [
    profileProblem(profile, values),
    ...jwtProblems(values, address),
    ...opaqueProblems(values),
    basicProblem(values, address),
    ...oauthProblems(values),
    pointless(values),
    developmentProblem(profile, values),
  ]
  return {
    problems: problems.filter((finding) => finding !== undefined),
    warnings: plainTextWarning(values, address),
  }
}

/** Whether the values of `auth` require callers to authenticate. */
export function requiresTokens(auth: unknown): boolean {
  return isObject(auth) && (auth.jwt !== undefined || auth.opaque !== undefined)
}

function profileProblem(profile: unknown, auth: Values): Finding | undefined {
  if (profile !== 'corporate' || requiresTokens(auth)) return undefined
  return {
    path: ['profile'],
    message: 'corporate needs `auth` with `jwt` or `opaque` at the top level of the file',
  }
}

function developmentProblem(profile: unknown, { development }: Values): Finding | undefined {
  if (profile !== 'corporate' || !isOn(development)) return undefined
  return { path: ['auth', 'development'], message: 'is not allowed with `profile: corporate`' }
}

function jwtProblems({ jwt, development }: Values, listen: Values): (Finding | undefined)[] {
  if (!isObject(jwt)) return []
  const at = (key: string): Path => ['auth', 'jwt', key]
  const { issuer, jwks, secret, algorithms } = jwt
  const names: readonly unknown[] = Array.isArray(algorithms) ? algorithms : []
  const needsDiscovery = jwks === undefined && secret === undefined && typeof issuer === 'string'
  return [
    needsDiscovery ? urlProblem(issuer, at('issuer'), ', or give `jwks` too') : undefined,
    urlProblem(jwks, at('jwks')),
    jwks !== undefined && secret !== undefined
      ? { path: at('secret'), at: 'key', message: '`jwks` is also set: keep one of the two' }
      : undefined,
    secret !== undefined && !isOn(development)
      ? {
          path: at('secret'),
          at: 'key',
          message: 'needs `development: on` under `auth`: use `jwks` elsewhere',
        }
      : undefined,
    names.includes('HS256') && secret === undefined
      ? { path: at('algorithms'), message: 'HS256 requires `secret`' }
      : undefined,
    secret !== undefined && names.some((name) => name !== 'HS256')
      ? { path: at('algorithms'), message: '`secret` allows only HS256' }
      : undefined,
    audienceProblem(jwt, listen),
    ...clientProblems(jwt, listen),
  ]
}

/** Checks the settings for sign-in of people at the issuer. */
function clientProblems(
  { issuer, jwks, secret, client_id: id, client_secret: clientSecret }: Values,
  { host, public_url: publicUrl }: Values,
): (Finding | undefined)[] {
  const at = (key: string): Path => ['auth', 'jwt', key]
  if (id === undefined) {
    const message = 'needs `client_id` as well'
    return [clientSecret === undefined ? undefined : { path: at('client_secret'), at: 'key', message }]
  }
  const isElsewhere = typeof host === 'string' && !isLoopbackHost(host) && publicUrl === undefined
  return [
    // Discovery through metadata requires a URL anyway.
    jwks !== undefined || secret !== undefined
      ? urlProblem(issuer, at('issuer'), ', where people sign in')
      : undefined,
    isElsewhere
      ? {
          path: at('client_id'),
          at: 'key',
          message: 'needs `listen.public_url`, to which the issuer redirects browsers',
        }
      : undefined,
  ]
}

// Without a public URL, the host names of this server are unknown, so the audience of tokens cannot be verified.
function audienceProblem({ audience }: Values, { host, public_url: publicUrl }: Values): Finding | undefined {
  if (audience !== undefined || publicUrl !== undefined) return undefined
  if (typeof host !== 'string' || isLoopbackHost(host)) return undefined
  const message = 'needs `audience` here or `listen.public_url`, to verify that tokens are for this server'
  return { path: ['auth', 'jwt'], at: 'key', message }
}

function opaqueProblems({ opaque }: Values): (Finding | undefined)[] {
  if (!isObject(opaque)) return []
  const { introspect, tokens } = opaque
  const ids = (Array.isArray(tokens) ? tokens : []).map((token) => (isObject(token) ? token.id : undefined))
  const twice = ids.findIndex((id, index) => id !== undefined && ids.indexOf(id) !== index)
  return [
    isObject(introspect) ? urlProblem(introspect.url, ['auth', 'opaque', 'introspect', 'url']) : undefined,
    introspect === undefined && ids.length === 0
      ? { path: ['auth', 'opaque'], message: 'needs `introspect` or at least one of `tokens`' }
      : undefined,
    twice < 0
      ? undefined
      : { path: ['auth', 'opaque', 'tokens', String(twice), 'id'], message: 'another token has this id' },
  ]
}

function basicProblem({ basic }: Values, { host, public_url: publicUrl }: Values): Finding | undefined {
  if (basic === undefined || typeof host !== 'string' || isLoopbackHost(host)) return undefined
  if (typeof publicUrl === 'string' && /^https:/i.test(publicUrl)) return undefined
  const message =
    'passwords only travel over https: give an https:// `listen.public_url`, or listen on 127.0.0.1'
  return { path: ['auth', 'basic'], at: 'key', message }
}

function oauthProblems({ oauth, jwt, opaque }: Values): (Finding | undefined)[] {
  if (!isObject(oauth)) return []
  const isReal = jwt !== undefined || (isObject(opaque) && opaque.introspect !== undefined)
  const servers = [oauth.authorization_servers].flat()
  return [
    isReal
      ? undefined
      : { path: ['auth', 'oauth'], at: 'key', message: 'needs `jwt` or `opaque.introspect`' },
    ...servers.map((server) => urlProblem(server, ['auth', 'oauth', 'authorization_servers'])),
  ]
}

/** Public lists require authentication for everything else. */
function pointless(auth: Values): Finding | undefined {
  if (auth.anonymous === undefined || requiresTokens(auth)) return undefined
  return {
    path: ['auth', 'anonymous'],
    at: 'key',
    message: 'needs `jwt` or `opaque`: otherwise everything is public',
  }
}

function urlProblem(value: unknown, path: Path, otherwise = ''): Finding | undefined {
  if (typeof value !== 'string') return undefined
  if (!isHttpUrl(value)) return { path, message: `must be a URL such as https://idp.example.com${otherwise}` }
  if (holdsPassword(value)) return { path, message: 'a URL must not contain a user and password' }
  if (isConfidentialUrl(value)) return undefined
  return { path, message: `must be https://, except on loopback${otherwise}` }
}

function plainTextWarning(auth: Values, { public_url: publicUrl }: Values): Finding[] {
  if (!requiresTokens(auth) || typeof publicUrl !== 'string' || !isHttpUrl(publicUrl)) return []
  if (isConfidentialUrl(publicUrl)) return []
  return [{ path: ['listen', 'public_url'], message: 'tokens are sent unencrypted: use https://' }]
}

function isOn(value: unknown): boolean {
  return value === true || value === 'on' || value === 'true'
}

/** Warns if calls wait for approval on a page that no browser can authenticate to. */
export function pageWarnings({ auth, features, profile, store }: Values): Finding[] {
  if (!isObject(auth) || !requiresTokens(auth)) return []
  const { jwt, basic } = auth
  const users = isObject(basic) && Array.isArray(basic.users) ? basic.users : []
  const isOpened = isObject(jwt) && jwt.client_id !== undefined
  if (isOpened || users.some((user) => isObject(user) && user.approves_as !== undefined)) return []
  if (!isPageUsed(features, profile)) return []
  const way = isObject(jwt)
    ? 'set `client_id` here for sign-in at the issuer, or add users'
    : 'add users with `approves_as`'
  const otherwise = store === 'memory' ? 'a client that supports elicitation' : '`gatehouse approvals`'
  return [
    {
      path: ['auth', isObject(jwt) ? 'jwt' : 'opaque'],
      at: 'key',
      message: `no browser can open the approval page, because browsers do not send tokens: ${way} under \`auth.basic\`. Otherwise, such a call needs ${otherwise}`,
    },
  ]
}

/** Whether a call may wait for approval outside of the client. */
function isPageUsed(features: unknown, profile: unknown): boolean {
  if (features === 'none') return false
  const confirm = isObject(features) ? features.confirm : undefined
  if (confirm === false || confirm === 'off') return false
  const fallback = isObject(confirm) ? confirm.fallback : undefined
  return (fallback ?? (profile === 'corporate' ? 'deny' : 'page')) === 'page'
}

/** Checks the approval settings of one tool for consistency. */
export function approvalProblems(tools: unknown, path: Path, hasAuth: boolean): Finding[] {
  if (!isObject(tools)) return []
  return Object.entries(tools).flatMap(([glob, tool]) =>
    isObject(tool) ? problemsOf(tool, [...path, glob], hasAuth) : [],
  )
}

function problemsOf(tool: Readonly<Record<string, unknown>>, at: Path, hasAuth: boolean): Finding[] {
  const { approval, approvals, approvers } = tool
  const misplaced = approval === 'inline' ? ['approvals', 'approvers'].filter((key) => key in tool) : []
  if (misplaced.length > 0) {
    const message = 'requires `approval: out_of_band`: inline approval asks only the caller'
    return misplaced.map((key) => ({ path: [...at, key], at: 'key', message }))
  }
  if (typeof approvals !== 'number' || approvals < 2) return []
  const path = [...at, 'approvals']
  const named = approvers === undefined ? undefined : [approvers].flat().length
  if (named !== undefined && named < approvals)
    return [{ path, message: `more than the ${named} in \`approvers\`: there are not enough approvers` }]
  if (hasAuth) return []
  return [{ path, message: 'needs `auth`: without it, people cannot be distinguished' }]
}
