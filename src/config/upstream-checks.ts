import { resolve } from 'node:path'
import { isObject } from '../core/json.ts'
import { compilePattern } from '../core/pattern.ts'
import { isHttpUrl, isLoopback } from './addresses.ts'
import { approvalProblems } from './approval-checks.ts'
import { expressionProblems } from './expression-checks.ts'
import { renameProblems } from './rename-checks.ts'
import { maskProblems } from './mask-checks.ts'
import { type Place, placeAt } from './place.ts'
import type { Checked, Finding } from './problem.ts'
import { holdsPassword, looksLikeToken, namesSecret } from './tokens.ts'
import { oauthProblems } from './upstream-oauth-checks.ts'

type Values = Readonly<Record<string, unknown>>
type Path = readonly string[]

/** Where the files an upstream names are, how strict to be, and whether people can be told apart. */
interface Surroundings {
  readonly directory: string
  readonly isStrict: boolean
  readonly hasAuth: boolean
}

/** Checks how the keys of one upstream go together. */
export function checkUpstream(
  upstream: Values,
  path: Path,
  { directory, isStrict, hasAuth }: Surroundings,
): Checked {
  const query = querySecrets(upstream, path)
  const found = [reachProblem(upstream, path), ...misplaced(upstream, path), transportProblem(upstream, path)]
  const rest = [
    ...headerProblems(upstream, path),
    cwdProblem(upstream, path, directory),
    urlProblem(upstream, path),
    ...oauthProblems(upstream, path),
    ...maskProblems(upstream.features, [...path, 'features']),
    ...patternProblems(upstream, path),
    ...renameProblems(upstream.tools, [...path, 'tools']),
    ...expressionProblems(upstream.tools, [...path, 'tools']),
    ...approvalProblems(upstream.tools, [...path, 'tools'], hasAuth),
    ...(isStrict ? query : []),
  ]
  return {
    problems: [...found, ...rest].filter((finding) => finding !== undefined),
    warnings: [...plainTextWarning(upstream, path), ...(isStrict ? [] : query)],
  }
}

function reachProblem({ url, command }: Values, path: Path): Finding | undefined {
  if (url !== undefined && command !== undefined) {
    return { path: [...path, 'command'], at: 'key', message: 'there is a `url` too: keep one of the two' }
  }
  if (url !== undefined || command !== undefined) return undefined
  return { path, at: 'key', message: 'needs `command` or `url`' }
}

function misplaced({ url, command, ...others }: Values, path: Path): Finding[] {
  if ((url === undefined) === (command === undefined)) return []
  const kind = url === undefined ? 'url' : 'command'
  const keys = kind === 'url' ? ['headers', 'token', 'oauth'] : ['args', 'env', 'cwd']
  const advice = kind === 'url' ? ': a command gets its secrets through `env`' : ': remove it'
  return keys
    .filter((key) => others[key] !== undefined)
    .map((key) => ({ path: [...path, key], at: 'key', message: `goes with \`${kind}\` only${advice}` }))
}

function transportProblem({ url, command, transport }: Values, path: Path): Finding | undefined {
  const needsUrl = transport === 'streamable' || transport === 'sse'
  if (needsUrl && command !== undefined && url === undefined) {
    return { path: [...path, 'transport'], message: 'goes with `url` only: a command speaks over stdio' }
  }
  if (transport === 'stdio' && url !== undefined && command === undefined) {
    return {
      path: [...path, 'transport'],
      message: 'goes with `command` only: a URL is auto, streamable or sse',
    }
  }
  return undefined
}

// Headers that MCP or HTTP fill in themselves.
const own = new Set(
  'host connection content-length transfer-encoding upgrade te trailer keep-alive content-type accept mcp-session-id mcp-protocol-version mcp-method mcp-name last-event-id'.split(
    ' ',
  ),
)

function headerProblems({ headers, token }: Values, path: Path): Finding[] {
  if (!isObject(headers)) return []
  return Object.keys(headers).flatMap((name): Finding[] => {
    const at = { path: [...path, 'headers', name], at: 'key' } as const
    if (own.has(name.toLowerCase()))
      return [{ ...at, message: 'the gateway sets this header itself: remove it' }]
    const isTwice = name.toLowerCase() === 'authorization' && token !== undefined
    return isTwice ? [{ ...at, message: '`token` sets this header already: keep one of the two' }] : []
  })
}

function cwdProblem({ cwd }: Values, path: Path, directory: string): Finding | undefined {
  if (typeof cwd !== 'string' || cwd === '') return undefined
  const place = placeAt(resolve(directory, cwd))
  if (place === 'directory') return undefined
  return { path: [...path, 'cwd'], message: unfit(place) }
}

function unfit(place: Exclude<Place, 'directory'>): string {
  if (place === 'nothing') return 'this directory does not exist'
  return place === 'other'
    ? 'this is not a directory'
    : `this directory can not be looked at: ${place.hidden}`
}

function urlProblem({ url }: Values, path: Path): Finding | undefined {
  if (typeof url !== 'string') return undefined
  const at = [...path, 'url']
  if (!isHttpUrl(url)) return { path: at, message: 'must be a whole URL such as https://example.com/mcp' }
  if (!holdsPassword(url)) return undefined
  return { path: at, message: 'a URL cannot hold a user and password: write them into `headers`' }
}

/** Patterns are matched against what servers send, so they must not be able to go on for ever. */
function patternProblems({ errors }: Values, path: Path): Finding[] {
  const rules: readonly unknown[] = Array.isArray(errors) ? errors : []
  return rules.flatMap((rule, index) => {
    const match = isObject(rule) ? rule.match : undefined
    const message = typeof match === 'string' ? patternProblem(match) : undefined
    return message === undefined ? [] : [{ path: [...path, 'errors', String(index), 'match'], message }]
  })
}

function patternProblem(match: string): string | undefined {
  try {
    return compilePattern(match) ? undefined : 'must not look around or back, and be short'
  } catch {
    return 'must be a regular expression'
  }
}

/** Queries end up in the logs of everyone on the way. */
function querySecrets({ url }: Values, path: Path): Finding[] {
  if (typeof url !== 'string' || !isHttpUrl(url)) return []
  const isSecret = ([name, value]: [string, string]): boolean =>
    value !== '' && (namesSecret(name) || /key$/i.test(name) || looksLikeToken(value))
  const found = [...new URL(url).searchParams].find(isSecret)
  if (!found) return []
  const message = `the query holds a secret (${found[0].slice(0, 40)}), and addresses end up in logs: send it with \`token\` or \`headers\``
  return [{ path: [...path, 'url'], message }]
}

function plainTextWarning({ url, token, headers, oauth }: Values, path: Path): Finding[] {
  if (typeof url !== 'string' || !/^http:/i.test(url) || !URL.canParse(url)) return []
  if (isLoopback(new URL(url).hostname)) return []
  const isFixed = token !== undefined || (isObject(headers) && Object.keys(headers).length > 0)
  const isSent = isFixed || oauth !== undefined
  const message = 'secrets go to this server unencrypted: use https:// if it offers it'
  return isSent ? [{ path: [...path, 'url'], message }] : []
}
