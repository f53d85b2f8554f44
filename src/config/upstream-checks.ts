import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { isObject } from '../core/json.ts'
import { isHttpUrl, isLoopback } from './addresses.ts'
import type { Checked, Finding } from './problem.ts'
import { holdsPassword } from './tokens.ts'

type Values = Readonly<Record<string, unknown>>
type Path = readonly string[]

/** Checks how the keys of one upstream go together. */
export function checkUpstream(upstream: Values, path: Path, directory: string): Checked {
  const found = [reachProblem(upstream, path), ...misplaced(upstream, path), transportProblem(upstream, path)]
  const rest = [
    ...headerProblems(upstream, path),
    cwdProblem(upstream, path, directory),
    urlProblem(upstream, path),
  ]
  return {
    problems: [...found, ...rest].filter((finding) => finding !== undefined),
    warnings: plainTextWarning(upstream, path),
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
  const keys = kind === 'url' ? ['headers', 'token'] : ['args', 'env', 'cwd']
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
  const status = statSync(resolve(directory, cwd), { throwIfNoEntry: false })
  if (status?.isDirectory()) return undefined
  const message = status ? 'this is not a directory' : 'this directory does not exist'
  return { path: [...path, 'cwd'], message }
}

function urlProblem({ url }: Values, path: Path): Finding | undefined {
  if (typeof url !== 'string') return undefined
  const at = [...path, 'url']
  if (!isHttpUrl(url)) return { path: at, message: 'must be a whole URL such as https://example.com/mcp' }
  if (!holdsPassword(url)) return undefined
  return { path: at, message: 'a URL cannot hold a user and password: write them into `headers`' }
}

function plainTextWarning({ url, token, headers }: Values, path: Path): Finding[] {
  if (typeof url !== 'string' || !/^http:/i.test(url) || !URL.canParse(url)) return []
  if (isLoopback(new URL(url).hostname)) return []
  const isSent = token !== undefined || (isObject(headers) && Object.keys(headers).length > 0)
  const message = 'secrets go to this server unencrypted: use https:// if it offers it'
  return isSent ? [{ path: [...path, 'url'], message }] : []
}
