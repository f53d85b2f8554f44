/**
 * The names of tools and prompts in the lists of several servers. Invariant: a listed name is that of one entry. Without a
 * prefix, two servers may have the same name, or one a name in the namespace of the other: then the prefix is added.
 */
import { type Naming, ownerOf } from './names.ts'

/** The tools or prompts that a server lists, under its own names. */
export interface ServerNames {
  readonly upstream: string
  readonly names: readonly string[]
}

/** A tool or prompt that is not listed as the configuration says, because of the names of another server. */
export interface NameConflict {
  readonly upstream: string
  /** The name that it would have. */
  readonly exposed: string
  /** Which servers are concerned, and where it is available, for people. */
  readonly message: string
}

interface Options {
  /** All servers, also those that list nothing. */
  readonly names: readonly string[]
  readonly naming: Naming
}

/** The names of entries in the shared lists. */
interface SharedNames {
  /** The name of an entry; undefined if it is left out. */
  of(upstream: string, name: string): string | undefined
  readonly conflicts: readonly NameConflict[]
}

/** Names the tools or prompts of all servers. */
export function sharedNames(lists: readonly ServerNames[], options: Options): SharedNames {
  const { naming } = options
  const own = new Map(lists.map(({ upstream, names }) => [upstream, new Set(names)]))
  const bare = ownersByName(
    [...own].filter(([upstream]) => naming.isBare(upstream)),
    naming,
  )
  const named = new Map<string, string | undefined>()
  const conflicts: NameConflict[] = []
  for (const [upstream, names] of own) {
    for (const name of names) {
      const found = nameOf({ upstream, name, names }, bare, options)
      named.set(`${upstream} ${name}`, found.exposed)
      if (found.conflict) conflicts.push(found.conflict)
    }
  }
  return { of: (upstream, name) => named.get(`${upstream} ${name}`), conflicts }
}

/** The servers that list each name without a prefix. */
function ownersByName(
  lists: readonly (readonly [string, ReadonlySet<string>])[],
  naming: Naming,
): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>()
  for (const [upstream, names] of lists) {
    for (const name of names) {
      const exposed = naming.name(upstream, name)
      const others = found.get(exposed)
      if (others) others.push(upstream)
      else found.set(exposed, [upstream])
    }
  }
  return found
}

interface Entry {
  readonly upstream: string
  readonly name: string
  /** All names of the list. */
  readonly names: ReadonlySet<string>
}

function nameOf(
  { upstream, name, names: own }: Entry,
  bare: ReadonlyMap<string, readonly string[]>,
  { names, naming }: Options,
): { readonly exposed: string | undefined; readonly conflict?: NameConflict } {
  const exposed = naming.name(upstream, name)
  const owner = ownerOf(exposed, names)?.upstream ?? upstream
  const others = (bare.get(exposed) ?? []).filter((each) => naming.isBare(upstream) && each !== upstream)
  if (owner === upstream && others.length === 0) return { exposed }
  const prefixed = naming.prefixed(upstream, name)
  const isFree = prefixed !== exposed && !own.has(prefixed) && ownerOf(prefixed, names)?.upstream === upstream
  const there = isFree ? `listed as ${prefixed}` : `available at /mcp/${upstream} only`
  const why =
    owner === upstream
      ? `without a prefix it would also be a name of ${others.join(' and of ')}`
      : `at /mcp such names belong to ${owner}`
  return {
    exposed: isFree ? prefixed : undefined,
    conflict: { upstream, exposed, message: `${exposed} of ${upstream} is ${there}: ${why}` },
  }
}
