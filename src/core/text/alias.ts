/** Short unique names within the limits of clients. */
import { createHash } from 'node:crypto'

const PLAIN = /^[a-z][a-z0-9_]{1,63}$/
const MAX_ALIAS_LENGTH = 64

/** Whether a name is in snake case and has 2 to 64 characters, as some hosts require for tools and prompts. */
export function isPlainName(name: string): boolean {
  return PLAIN.test(name)
}

/** A name in snake case with 2 to 64 characters; a name that already complies is unchanged. */
export function aliasOf(name: string): string {
  if (isPlainName(name)) return name
  const snake = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_|_$/g, '')
  const worded = snake === '' ? `x_${digest(name)}` : /^[a-z]./.test(snake) ? snake : `x_${snake}`
  // Shortened names with the same beginning would be equal without a digest.
  return worded.length <= MAX_ALIAS_LENGTH ? worded : marked(worded, name)
}

/** What the names of a server's tools and prompts begin with at the address of several servers. */
export function prefixOf(server: string): string {
  return `${server.replaceAll('-', '_')}_`
}

/** A name of at most 64 characters, the limit of several clients; one that complies is unchanged, whatever its characters. */
export function shortNameOf(name: string): string {
  if (name.length <= MAX_ALIAS_LENGTH) return name
  return marked(name.replaceAll(/[^\w-]/g, '_'), name)
}

/** A unique alias, for use where several names share an alias. */
export function ownAliasOf(name: string): string {
  return marked(aliasOf(name), name)
}

function marked(alias: string, name: string): string {
  const mark = `_${digest(name)}`
  return alias.slice(0, MAX_ALIAS_LENGTH - mark.length) + mark
}

/** Whether `aliasOf` or `shortNameOf` may have shortened a name, so that the original cannot be derived from it. */
export function isShortened(alias: string): boolean {
  return alias.length === MAX_ALIAS_LENGTH && /_[0-9a-f]{8}$/.test(alias)
}

/** The names of each alias, also of the unique ones; more than one if aliases collide. */
export function namesByAlias(names: Iterable<string>): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const name of new Set(names)) {
    for (const alias of isPlainName(name) ? [name] : new Set([aliasOf(name), ownAliasOf(name)])) {
      const others = found.get(alias)
      if (others) others.push(name)
      else found.set(alias, [name])
    }
  }
  return found
}

function digest(name: string): string {
  return createHash('sha256').update(name).digest('hex').slice(0, 8)
}
