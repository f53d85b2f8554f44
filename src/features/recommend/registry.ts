import { LRUCache } from 'lru-cache'
import { fits } from '../../core/glob.ts'
import { isObject } from '../../core/json.ts'
import { createRanking, type Described } from '../../core/ranking.ts'
import { actionOf } from '../../core/synonyms.ts'
import { queryWords, stem } from '../../core/stem.ts'
import type { Deps } from '../feature.ts'
import type { Settings } from './settings.ts'
import { MIN_MATCH_SCORE, type Recommended } from './shape.ts'

/** Servers of a registry, as it lists them. */
type Search = (word: string) => Promise<readonly Described[]>

/** How many answers of the registry are kept, for how long in milliseconds, and how many are waited for at a time. */
const MAX_CACHED_SEARCHES = 200
const SEARCH_TTL_MS = 600_000
const MAX_CONCURRENT_SEARCHES = 4
/** How many words of what is wanted are searched for, and how many servers are asked for each. */
const MAX_SEARCH_WORDS = 2
const MAX_SERVERS_PER_WORD = 50

/** Looks for servers in a registry; what it does not answer is only missing. */
export function createRegistry({
  fetchJson,
  log,
}: Deps): (capability: string, settings: Settings) => Promise<Recommended[]> {
  const known = new LRUCache<string, readonly Described[]>({ max: MAX_CACHED_SEARCHES, ttl: SEARCH_TTL_MS })
  let busy = 0

  const searchIn =
    (registry: string): Search =>
    async (word) => {
      const url = `${registry}/v0.1/servers?search=${encodeURIComponent(word)}&version=latest&limit=${MAX_SERVERS_PER_WORD}`
      const kept = known.get(url)
      if (kept || busy >= MAX_CONCURRENT_SEARCHES) return kept ?? []
      busy += 1
      try {
        const found = listedIn(await fetchJson(url))
        known.set(url, found)
        return found
      } catch (error) {
        log.warn('discovery.unanswered', { registry, cause: String(error).replaceAll(url, registry) })
        return []
      } finally {
        busy -= 1
      }
    }

  return async (capability, { registry: written, publishers }) => {
    if (!/^https?:/.test(written)) return []
    const registry = written.replace(/\/$/, '')
    const allowed = [publishers].flat()
    if (allowed.length === 0) return []
    const found = await Promise.all(searchedFor(capability).map(searchIn(registry)))
    const servers = new Map(found.flat().map((each) => [each.name, each] as const))
    const permitted = [...servers.values()].filter(({ name }) => isOf(name, allowed))
    return createRanking(permitted)
      .rank(capability)
      .filter(({ match }) => match >= MIN_MATCH_SCORE)
      .map(({ of: { name }, match }) => ({
        server: name,
        score: match,
        registryUrl: `${registry}/v0.1/servers/${encodeURIComponent(name)}/versions/latest`,
      }))
  }
}

/** Registries compare names alone, so the words are searched for that name things: the longest ones. */
function searchedFor(capability: string): string[] {
  const words = [...new Set(queryWords(capability))].filter((word) => actionOf(stem(word)) === undefined)
  return words.toSorted((one, other) => other.length - one.length).slice(0, MAX_SEARCH_WORDS)
}

function isOf(name: string, publishers: readonly string[]): boolean {
  const [publisher = ''] = name.split('/')
  return publishers.some((glob) => fits(glob, publisher) || fits(glob, name))
}

/** Names in a registry: a namespace and a name of its own. */
const shape = /^[a-zA-Z0-9.-]{3,100}\/[a-zA-Z0-9._-]{1,100}$/

function listedIn({ servers }: Readonly<Record<string, unknown>>): Described[] {
  const list: readonly unknown[] = Array.isArray(servers) ? servers : []
  return list.flatMap((each) => {
    if (!isObject(each)) return []
    const { name, title, description } = isObject(each.server) ? each.server : each
    if (typeof name !== 'string' || !shape.test(name) || isGone(each)) return []
    const words = typeof description === 'string' ? description : ''
    return [{ name, description: words, ...(typeof title === 'string' && { title }) }]
  })
}

function isGone({ _meta: meta, status }: Readonly<Record<string, unknown>>): boolean {
  const official = isObject(meta) ? meta['io.modelcontextprotocol.registry/official'] : undefined
  const told = isObject(official) ? official.status : status
  return told === 'deleted' || told === 'deprecated'
}
