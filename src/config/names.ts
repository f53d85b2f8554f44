/** Names of servers, and addresses that are local. */
import { nearest } from '../core/text/words.ts'

/** Paths that the gateway uses itself, so no server can have these names. */
export const reservedNames: readonly string[] = ['gatehouse', 'server-card']

/** The pattern of an upstream's name. */
export const namePattern = `^(?!(?:${reservedNames.join('|')})$)[a-z][a-z0-9-]{0,30}$`

/** A valid name similar to `text` that is not taken. */
export function upstreamName(text: string, taken: ReadonlySet<string> = new Set()): string {
  const base = fit(text)
  if (!taken.has(base) && !reservedNames.includes(base)) return base
  for (let number = 2; ; number += 1) {
    const name = `${base.slice(0, 30 - String(number).length)}-${number}`
    if (!taken.has(name)) return name
  }
}

/** A name for the server at a URL: the significant part of its host. */
export function nameOfUrl(url: string): string {
  const host = new URL(url).hostname
  if (/^[\d.]+$|^\[/.test(host)) return 'server'
  const labels = host.split('.').filter((label) => !['www', 'mcp', 'api'].includes(label))
  return upstreamName(labels.length > 1 ? (labels.at(-2) ?? host) : (labels[0] ?? host))
}

/** A name for the server of a command: its package or script, without common prefixes and suffixes. */
export function nameOfCommand(words: readonly string[]): string {
  const significant = words.filter((word, index) => !isTrimming(word, words[index - 1]))
  const word = significant[0] ?? words[0] ?? ''
  const path = word.startsWith('@') ? (word.split('/')[1] ?? word) : scriptName(word)
  const name = path.replace(/(?<=.)[@:=].*$/, '').replace(/\.\w+$/, '')
  const short = name.replace(/^(mcp-)?server-|^mcp-/, '').replace(/-(mcp-)?server$|-mcp$/, '')
  return upstreamName(short === '' ? name : short)
}

const runners = new Set(
  'npx npm pnpm yarn bunx bun node deno tsx uvx uv pipx python python3 docker podman env exec dlx run x tool'.split(
    ' ',
  ),
)

function isTrimming(word: string, before: string | undefined): boolean {
  if (word.startsWith('-') || /^\w+=/.test(word)) return true
  if (before === '-e' || before === '--env') return true
  return runners.has((word.split(/[\\/]/).at(-1) ?? '').replace(/\.(exe|cmd)$/i, ''))
}

function scriptName(path: string): string {
  const significant = path.split(/[\\/]/).filter((part) => {
    return !/^(\.*|dist|build|src|lib|bin|out|(index|main|server|cli)(\.\w+)?)$/.test(part)
  })
  return significant.at(-1) ?? path
}

function fit(text: string): string {
  const dashed = text.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
  const trimmed = dashed
    .replace(/^[^a-z]+/, '')
    .slice(0, 31)
    .replace(/-+$/, '')
  return trimmed === '' ? 'server' : trimmed
}

/** Whether a text is a URL that starts with http:// or https://. */
export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
}

// Detects a mistyped URL in the short form of a server, which may also be a one-word command. Only words that cannot be
// the name of a program are reported, so a command is never rejected.

/** A message for a mistyped URL; undefined for other texts. Quotes only the scheme. */
export function urlMistake(text: string): string | undefined {
  const word = text.trim()
  if (/\s/.test(word) || /^https?:\/\//i.test(word)) return undefined
  const scheme = /^([a-z][a-z0-9+.-]{0,20}):\/\//i.exec(word)?.[1]
  if (scheme !== undefined) return `MCP servers do not use the scheme ${scheme}://: write ${meant(scheme)}`
  const broken = /^(h?tt?ps?|https?)(?::\/(?!\/)|\/\/|:(?=[a-z0-9.-]+(?:[:/]|$)))/i.exec(word)?.[1]
  if (broken !== undefined) return `the URL is incomplete: write ${meant(broken)} before the host`
  if (/^(?:localhost|(?:\d{1,3}\.){3}\d{1,3}|[\w-]+(?:\.[\w-]+)+):\d{1,5}(?:\/|$)/i.test(word))
    return 'this has a port but no scheme: write http:// or https:// before it'
  return undefined
}

function meant(scheme: string): string {
  const found = nearest(scheme, ['http', 'https'])
  return found === undefined ? 'http:// or https://' : `${found}://`
}
