/**
 * Tells a URL with a slip of the pen from a command: both are one word where a server is named in short. Only what no
 * program is called is taken for a URL, so a command is never refused.
 */
import { nearest } from '../core/text/nearest.ts'

/** What a text that was meant as a URL should be; nothing for any other text. Names no part of it but its scheme. */
export function urlMistake(text: string): string | undefined {
  const word = text.trim()
  if (/\s/.test(word) || /^https?:\/\//i.test(word)) return undefined
  const scheme = /^([a-z][a-z0-9+.-]{0,20}):\/\//i.exec(word)?.[1]
  if (scheme !== undefined) return `${scheme}:// is no scheme of MCP servers: write ${meant(scheme)}`
  const broken = /^(h?tt?ps?|https?)(?::\/(?!\/)|\/\/|:(?=[a-z0-9.-]+(?:[:/]|$)))/i.exec(word)?.[1]
  if (broken !== undefined) return `this is no whole URL: write ${meant(broken)} before the host`
  if (/^(?:localhost|(?:\d{1,3}\.){3}\d{1,3}|[\w-]+(?:\.[\w-]+)+):\d{1,5}(?:\/|$)/i.test(word))
    return 'this has a port but no scheme: write http:// or https:// before it'
  return undefined
}

function meant(scheme: string): string {
  const found = nearest(scheme, ['http', 'https'])
  return found === undefined ? 'http:// or https://' : `${found}://`
}
