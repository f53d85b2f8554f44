/**
 * The file in which an origin says at which of its paths webhooks are received (SEP-3415): who serves it there has
 * verified them. The gateway serves its own, for its hooks, and reads those of receivers.
 */
import { isObject, readJson } from '../../../core/json/json.ts'
import { isAccepted } from './attempts.ts'
import type { Dialer } from '../../dialer.ts'

/** The path of the file. */
export const RECEIVERS_PATH = '/.well-known/mcp-webhook-receiver.json'

/** How long the file may take, in milliseconds, how much of it is read, in bytes, and how many paths may be in it. */
const TIMEOUT_MS = 5000
const MAX_BYTES = 16 * 1024
const MAX_PATHS = 100

/** The text of a file with the paths below which webhooks are received. */
export function receiversFile(paths: readonly string[]): string {
  return JSON.stringify({ receivers: paths })
}

/** Whether the origin of a URL says that webhooks are received there. Only https says whose origin it is. */
export async function isPublished(url: string, dialer: Dialer, signal?: AbortSignal): Promise<boolean> {
  const { protocol, origin, pathname } = new URL(url)
  if (protocol !== 'https:') return false
  const outcome = await dialer.get({
    url: `${origin}${RECEIVERS_PATH}`,
    headers: { accept: 'application/json' },
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: MAX_BYTES,
    ...(signal && { signal }),
  })
  if (outcome.kind === 'failed' || !isAccepted(outcome.status)) return false
  const file = readJson(outcome.body)
  const paths: readonly unknown[] = isObject(file) && Array.isArray(file.receivers) ? file.receivers : []
  return paths.slice(0, MAX_PATHS).some((each) => typeof each === 'string' && isBelow(pathname, each))
}

/** Whether a path is another one, or below it: `/hooks` has `/hooks/a`, but not `/hooksy`. */
function isBelow(path: string, prefix: string): boolean {
  if (!prefix.startsWith('/')) return false
  return path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`)
}
