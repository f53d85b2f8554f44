/** The names and globs in a configuration, for comparison with the lists of servers. */
import { fits } from '../core/text/pattern.ts'
import { readDeprecation } from '../core/contract.ts'
import { asObject, isObject } from '../core/json/json.ts'
import type { JsonSchema } from '../core/schema/schema.ts'
import type { ConfiguredName } from '../core/settings.ts'
import type { Finding } from './problem.ts'
import { resolved, schemaOf } from './schema-lookup.ts'

/**
 * Collects every name and pattern in a configuration that refers to something servers list: tools, prompts, resources,
 * arguments, scopes. A schema marks them with `x-names`, on a string or on member names, so no other code needs to know
 * these settings. Names that `optional` of a server covers are omitted.
 */
export function configuredNames(value: unknown, schema: JsonSchema): readonly ConfiguredName[] {
  const found: ConfiguredName[] = []
  const visit = (item: unknown, rules: JsonSchema | undefined, at: Place): void => {
    if (rules === undefined) return
    const own = resolved(rules, schema)
    if (typeof item === 'string') found.push(...namesIn(item, own['x-names'], at))
    if (Array.isArray(item)) {
      const items = isObject(own.items) ? own.items : undefined
      const inherited = { ...items, ...(own['x-names'] !== undefined && { 'x-names': own['x-names'] }) }
      item.forEach((each, index) => visit(each, inherited, { ...at, path: [...at.path, String(index)] }))
    }
    if (!isObject(item)) return
    const kind = isObject(own.propertyNames) ? own.propertyNames['x-names'] : undefined
    for (const [key, each] of Object.entries(item)) {
      const exposed = kind === 'tool' && isObject(each) && typeof each.rename === 'string' ? each.rename : key
      const isHidden = kind === 'tool' && isObject(each) && each.hide === true
      const below = within(at, key, kind, exposed)
      // A hidden tool may already be removed from the server.
      const isGone = kind === 'tool' && isObject(each) && each.deprecated !== undefined
      if (!isGone) {
        const keyed = namesIn(key, kind, { ...below, owner: at.owner })
        found.push(
          ...keyed.map((name): ConfiguredName => {
            const renamed = exposed === key ? {} : { pattern: exposed, written: key }
            return { ...name, ...renamed, ...(isHidden && { isGuard: true }), at: 'key' }
          }),
        )
      }
      visit(each, schemaOf(own, key), below)
    }
  }
  visit(value, schema, { path: [], owner: undefined })
  return found.filter((name) => !isOptional(name, value))
}

/** Patterns under `optional` that match no name in the settings of their server. */
export function idleOptions(value: unknown, schema: JsonSchema): Finding[] {
  const upstreams = asObject(asObject(value).upstreams)
  const without = Object.entries(upstreams).map(([name, upstream]) => {
    return [name, isObject(upstream) ? { ...upstream, optional: [] } : upstream] as const
  })
  const names = configuredNames({ upstreams: Object.fromEntries(without) }, schema)
  return Object.keys(upstreams).flatMap((upstream) => {
    const own = names.filter((each) => each.upstream === upstream)
    return optionsOf(upstreams[upstream]).flatMap((pattern, index): Finding[] => {
      if (own.some((each) => covers(pattern, each.pattern))) return []
      const path = ['upstreams', upstream, 'optional', String(index)]
      return [{ path, message: 'no other setting of this server uses this name: remove it' }]
    })
  })
}

interface Place {
  readonly path: readonly string[]
  readonly owner: ConfiguredName['owner']
}

function within(at: Place, key: string, kind: unknown, exposed: string): Place {
  const isOwner = kind === 'tool' || kind === 'item'
  return { path: [...at.path, key], owner: isOwner ? { kind, pattern: exposed } : at.owner }
}

/** The configured name for a string that the schema marks as a name. */
function namesIn(text: string, kind: unknown, { path, owner }: Place): ConfiguredName[] {
  const upstream = path[0] === 'upstreams' ? path[1] : undefined
  const isGuard = kind === 'item' || (kind === 'argument' && owner?.kind === 'item')
  const named = (pattern: string, of: ConfiguredName['kind']): ConfiguredName => ({
    path,
    kind: of,
    pattern,
    isGuard,
    ...(upstream !== undefined && { upstream }),
    ...(of === 'argument' && owner && { owner }),
  })
  switch (kind) {
    case 'tool':
    case 'item':
    case 'scope':
      return [named(text, kind)]
    case 'argument':
      return isWord(text) ? [] : [named(text, kind)]
    case 'template':
      return isWord(text) || text.startsWith('$')
        ? []
        : placeholders(text).map((name) => named(name, 'argument'))
    case 'successor': {
      const { successor } = readDeprecation(text)
      return successor === undefined ? [] : [named(successor, 'tool')]
    }
    default:
      return []
  }
}

/** Words with a special meaning instead of a name. */
function isWord(text: string): boolean {
  return /^(?:on|off|true|false|never)$/.test(text)
}

function placeholders(template: string): string[] {
  return [...template.matchAll(/\{([^{}]+)\}/g)].map(([, name = '']) => name.trim())
}

function isOptional({ upstream, pattern }: ConfiguredName, value: unknown): boolean {
  const upstreams = asObject(asObject(value).upstreams)
  return upstream !== undefined && optionsOf(upstreams[upstream]).some((each) => covers(each, pattern))
}

function covers(option: string, pattern: string): boolean {
  return option === pattern || fits(option, pattern)
}

function optionsOf(upstream: unknown): readonly string[] {
  const written = isObject(upstream) ? [upstream.optional ?? []].flat() : []
  return written.filter((each) => typeof each === 'string')
}
