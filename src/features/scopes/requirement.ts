import type { Descriptor } from '../../core/entry.ts'
import { fits, fitting } from '../../core/glob.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { settingOf } from '../../core/tool-settings.ts'
import { decoded, fold, pathVariants, tidy } from './spellings.ts'
import { uriReadings } from './uris.ts'

/** Something a caller may need scopes for. */
export type Thing = Pick<Descriptor, 'kind' | 'name'> & {
  readonly classification: Pick<Descriptor['classification'], 'op' | 'risk'>
}

/** The scopes something needs: of each group one. The first of a group is the one that opens least. */
export type Requirement = readonly (readonly string[])[]

/** The scopes a caller needs for something of a server. */
export function requirementOf(thing: Thing, settings: UpstreamSettings): Requirement {
  const explicit = thing.kind === 'tool' ? settingOf(settings.tools, thing.name, 'scopes') : undefined
  if (explicit) return explicit.value.map((scope) => [scope])
  const groups = new Map<string, readonly string[]>()
  for (const name of thing.kind === 'resource' ? pathVariants(thing.name) : [thing.name]) {
    const named = opening(settings.scopes, name)
    const group = named.length > 0 ? named : [derivedScope(thing, settings.name)]
    groups.set(group.join(' '), group)
  }
  if (thing.kind !== 'resource' || Object.keys(settings.scopes).length === 0) return [...groups.values()]
  // What it may be read as matters where scopes are about just that.
  for (const reading of uriReadings(thing.name)) {
    const group = openingFolded(settings.scopes, reading)
    if (group.length > 0) groups.set(group.join(' '), group)
  }
  return [...groups.values()]
}

/** The scopes that stand for a requirement where one list of them is wanted. */
export function requiredScopes(requirement: Requirement): string[] {
  return [...new Set(requirement.flatMap(([least]) => (least === undefined ? [] : [least])))]
}

/** What a caller lacks: granting exactly these meets the requirement. */
export function missingScopes(requirement: Requirement, held: ReadonlySet<string> | undefined): string[] {
  if (!held) return []
  const unmet = requirement.filter((group) => !group.some((scope) => held.has(scope)))
  return unmet.length === 0 ? [] : requiredScopes(unmet)
}

function derivedScope({ classification: { op, risk } }: Thing, server: string): string {
  if (op === 'admin' || op === 'execute') return `${op}:${server}`
  if (op === 'delete' || risk === 'destructive') return `delete:${server}`
  return op === 'read' ? `read:${server}` : `write:${server}`
}

/** The named scopes that open a name, that with the most specific glob first. */
function opening(scopes: UpstreamSettings['scopes'], name: string): string[] {
  const globs = Object.values(scopes).flat()
  const found = fitting(globs, name)
  const encoded = globs.filter((glob) => !found.includes(glob) && fits(decoded(glob), name))
  const owners = [...found, ...encoded].flatMap((glob) =>
    Object.keys(scopes).filter((scope) => scopes[scope]?.includes(glob)),
  )
  return [...new Set(owners)]
}

/** The same for a reading of a name, in whatever case; none where only globs for everything fit it. */
function openingFolded(scopes: UpstreamSettings['scopes'], reading: string): string[] {
  const globs = Object.values(scopes).flat()
  const folded = (glob: string): string => fold(tidy(decoded(glob)))
  const found = new Set(fitting(globs.map(folded), fold(reading)))
  if ([...found].every((glob) => glob.startsWith('*'))) return []
  const owners = [...found].flatMap((glob) =>
    Object.keys(scopes).filter((scope) => scopes[scope]?.some((each) => folded(each) === glob)),
  )
  return [...new Set(owners)]
}
