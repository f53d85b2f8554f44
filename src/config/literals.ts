import { isObject } from '../core/json.ts'
import type { Finding } from './problem.ts'
import { hasReference } from './secrets.ts'
import { looksLikeToken, namesSecret } from './tokens.ts'

/** Warns of secrets that stand in the file itself; `value` is the file before references are replaced. */
export function literalSecrets(value: unknown, path: readonly string[] = []): Finding[] {
  if (Array.isArray(value))
    return value.flatMap((item, index) => literalSecrets(item, [...path, String(index)]))
  if (isObject(value))
    return Object.entries(value).flatMap(([key, item]) => literalSecrets(item, [...path, key]))
  if (typeof value !== 'string' || !isSecret(value, path)) return []
  const message =
    'this looks like a secret: put it in the environment or a file, and write ${NAME} or ${file:/path} here'
  return [{ path, message }]
}

function isSecret(text: string, path: readonly string[]): boolean {
  if (looksLikeToken(text)) return true
  if (path.length === 1 && path[0] === 'store')
    return /^rediss?:\/\/[^/@]*:[^/@]+@/.test(text) && !hasReference(text)
  if (text === '' || hasReference(text)) return false
  if (path[0] === 'auth') return /^(client_)?secret$/.test(path.at(-1) ?? '')
  if (path[0] !== 'upstreams') return false
  const [key = '', name = ''] = path.slice(2)
  if (key === 'token' || (key === 'oauth' && name === 'client_secret')) return true
  return path.length === 4 && (key === 'env' || key === 'headers') && namesSecret(name)
}
