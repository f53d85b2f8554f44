/**
 * Weighs the annotations of a tool against the other evidence. Absent hints have the defaults of MCP; reassuring ones
 * count only if the server is trusted, and not against the name of the tool.
 */
import { effectRanks, type Effect, type Evidence } from './evidence.ts'
import { verbClass } from './lexicon.ts'

/** What the hints are weighed against. */
export interface Weighing {
  readonly hints: Readonly<Record<string, unknown>>
  readonly isTrusted: boolean
  /** Why the hints are disregarded; absent if they count. */
  readonly ignored?: string
}

/** Evidence after the hints are weighed, and which of them were not counted, for people. */
export interface Weighed {
  readonly evidence: readonly Evidence[]
  readonly caveats: readonly string[]
}

/** Adds annotations to the evidence or removes evidence by them. */
export function weighed(all: readonly Evidence[], { hints, isTrusted, ignored }: Weighing): Weighed {
  if (ignored !== undefined) {
    const { evidence, caveats } = weighed(all, { hints: {}, isTrusted })
    return { evidence, caveats: [...caveats, ignored] }
  }
  const { readOnlyHint, destructiveHint } = hints
  const isSession = all.length > 0 && all.every(isPassing)
  if (readOnlyHint === true) return readOnlyEvidence(all, isTrusted, destructiveHint)
  if (destructiveHint === true) {
    const isPassingOnly = isSession && all.some(({ effect }) => effect !== 'read')
    return isPassingOnly
      ? { evidence: all, caveats: [] }
      : raised(all, 'destructive', 'destructiveHint: true')
  }
  if (destructiveHint === false) return reassured(all, isTrusted, readOnlyHint)
  if (readOnlyHint === false) {
    if (isSession) return raised(all, 'write', 'readOnlyHint: false')
    return raised(all, 'destructive', 'readOnlyHint: false, and not destructiveHint: false')
  }
  if (all.length > 0) return { evidence: all, caveats: [] }
  return { evidence: [{ effect: 'destructive', text: 'nothing describes what it does' }], caveats: [] }
}

/** Evidence of reading, or of effects that end with the session. */
function isPassing({ effect, verb }: Evidence): boolean {
  return effect === 'read' || (verb !== undefined && verbClass(verb) === 'session')
}

function raised(all: readonly Evidence[], effect: Effect, what: string): Weighed {
  return { evidence: [{ effect, text: `its server says ${what}` }, ...all], caveats: [] }
}

/** A trusted server's readOnlyHint is believed, unless the tool's name contradicts it. */
function readOnlyEvidence(all: readonly Evidence[], isTrusted: boolean, destructiveHint: unknown): Weighed {
  if (destructiveHint === true && !isTrusted) return raised(all, 'destructive', 'destructiveHint: true')
  const text = 'its server says readOnlyHint: true'
  if (!isTrusted) {
    const evidence: readonly Evidence[] =
      all.length > 0 ? all : [{ effect: 'destructive', text: 'only its annotations describe what it does' }]
    const isDoubted = evidence.some(({ effect }) => effect !== 'read')
    return { evidence, caveats: isDoubted ? [`${text}, which is ignored (trust is off)`] : [] }
  }
  const kept = all.filter(
    ({ verb, when, effect, isName }) =>
      when !== undefined ||
      effect === 'read' ||
      (isName && verb !== undefined && (isContradiction(verb) || plainWrites.has(verb))),
  )
  const isContradicted = kept.some(({ effect, when }) => effect !== 'read' && when === undefined)
  if (isContradicted) return { evidence: kept, caveats: [`${text}, which its name contradicts`] }
  return { evidence: [{ effect: 'read', text }, ...kept], caveats: [] }
}

/** Verbs that, in a name, show that something is created or changed, whatever its server declares. */
const plainWrites = new Set('create add insert update modify edit rename submit upload write'.split(' '))

/** Verbs that no annotation overrides. */
function isContradiction(verb: string): boolean {
  const kind = verbClass(verb)
  return kind === 'destructive' || kind === 'outward'
}

/** A trusted server's `destructiveHint: false` overrides soft evidence. */
function reassured(all: readonly Evidence[], isTrusted: boolean, readOnlyHint: unknown): Weighed {
  const text = 'its server says destructiveHint: false'
  const acts: readonly Evidence[] =
    readOnlyHint === false || all.length === 0 ? [{ effect: 'write', text }] : []
  if (!isTrusted) {
    const evidence: readonly Evidence[] =
      all.length > 0 ? all : [{ effect: 'destructive', text: 'only its annotations describe what it does' }]
    const isDoubted = evidence.some(({ effect }) => effectRanks[effect] > effectRanks.write)
    const more: readonly Evidence[] =
      readOnlyHint === false ? [{ effect: 'write', text: 'its server says readOnlyHint: false' }] : []
    return {
      evidence: [...evidence, ...more],
      caveats: isDoubted ? [`${text}, which is ignored (trust is off)`] : [],
    }
  }
  const softened = all.map((item): Evidence =>
    item.isSoft && !item.when ? { ...item, effect: 'write' } : item,
  )
  return { evidence: [...softened, ...acts], caveats: [] }
}
