/**
 * Judges the effect of a tool from everything known before it runs: its name, title, description, arguments, output and
 * annotations. The worst evidence wins; reassuring declarations of its server count only if the server is trusted and
 * no plain evidence contradicts them. A tool without any evidence is considered destructive.
 *
 * A judgement applies to the tool; `effectOfCall` selects the part of it that applies to one call.
 */
import type { Descriptor, Classification, Operation, Risk } from '../descriptor.ts'
import { isObject } from '../json/json.ts'
import type { Payload } from '../payload.ts'
import { argumentEvidence, dryRunArgument, hasVerb, outputEvidence } from './arguments.ts'
import {
  type Condition,
  type Effect,
  effectRanks,
  type Evidence,
  worse,
  verbClass,
  type Variation,
} from './lexicon.ts'
import { descriptionEvidence, nameEvidence, titleEvidence } from './words.ts'

/** The effect of a tool, and the evidence for it. */
export interface Judgement extends Variation {
  /** The effect of its worst call. */
  readonly effect: Effect
  /** The decisive verb, if any. */
  readonly verb?: string
  /** The evidence, decisive reason first; for people. */
  readonly evidence: readonly string[]
}

/** What is known of the server of a tool. */
export interface Context {
  readonly server: string
  /** Whether its reassuring annotations are believed. */
  readonly isTrusted: boolean
}

type Definition = Readonly<Record<string, unknown>>

/** Judges an entry of `tools/list`. */
export function judge(definition: Definition, { server, isTrusted }: Context): Judgement {
  const name = String(definition.name)
  const description = typeof definition.description === 'string' ? definition.description : ''
  const hints = isObject(definition.annotations) ? definition.annotations : {}
  const named = nameEvidence(name, server)
  const wordEvidence = [...named, ...titlesOf(definition, hints), ...descriptionEvidence(description)]
  const plain = [
    ...wordEvidence,
    ...argumentEvidence(definition.inputSchema, aboutOf(name, description, wordEvidence)),
  ]
  const all = [...plain, ...outputEvidence(definition.outputSchema)]
  const weighed = annotated(all, { hints, isTrusted })
  const base = weighed.evidence.filter((item) => !item.when)
  const conditions = weighed.evidence.flatMap((item) => (item.when ? [{ ...item, when: item.when }] : []))
  const baseEffect = base.reduce<Effect>((effect, item) => worse(effect, item.effect), 'read')
  const ordered = weighed.evidence.toSorted(
    (one, other) => effectRanks[other.effect] - effectRanks[one.effect],
  )
  const worst = conditions.reduce<Effect>((effect, condition) => worse(effect, condition.effect), baseEffect)
  const dryRun = dryRunArgument(definition.inputSchema)
  const verb = ordered.find((item) => item.effect === worst && item.verb !== undefined)?.verb
  return {
    effect: worst,
    baseEffect,
    conditions: conditions.filter((condition) => effectRanks[condition.effect] > effectRanks[baseEffect]),
    ...(dryRun !== undefined && { dryRun }),
    ...(verb !== undefined && { verb }),
    evidence: [...ordered.map(evidenceText), ...weighed.caveats],
  }
}

/** The effect of one call of a judged tool. */
function effectOfCall(
  { baseEffect, conditions, dryRun }: Variation,
  given: Readonly<Record<string, unknown>>,
): Effect {
  if (dryRun !== undefined && at(given, dryRun) === true) return 'read'
  return conditions
    .filter(({ when }) => isMet(when, at(given, when.path)))
    .reduce<Effect>((effect, condition) => worse(effect, condition.effect), baseEffect)
}

function at(given: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, step) => (isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined),
    given,
  )
}

function isMet({ is, value }: Condition, given: unknown): boolean {
  if (is === 'value') return given === value
  if (given === undefined || given === null || given === false || given === '') return false
  return is === 'given' || /"\$(?:out|merge)"/.test(JSON.stringify(given))
}

function evidenceText({ text, when }: Evidence): string {
  return when && when.is === 'given' ? `${text} (only calls with ${when.argument})` : text
}

function titlesOf(definition: Definition, hints: Definition): readonly Evidence[] {
  const titles = [definition.title, hints.title].filter((item) => typeof item === 'string')
  return [...new Set(titles)].flatMap(titleEvidence)
}

function aboutOf(name: string, description: string, wordEvidence: readonly Evidence[]) {
  const verbs = wordEvidence.flatMap(({ verb }) => verb ?? [])
  const acting = wordEvidence.filter(({ effect }) => effect !== 'read')
  return {
    text: `${name.replaceAll(/[_-]/g, ' ')} ${description}`,
    verbs,
    isActing: acting.length > 0,
    isExecuting:
      hasVerb(verbs, ['execute']) ||
      acting.some(({ effect }) => effect === 'execute') ||
      verbs.includes('query'),
    isAdding: acting.length > 0 && verbs.every((verb) => adding.has(verb) || verbClass(verb) === 'read'),
  }
}

const adding = new Set('create add insert append edit comment annotate patch modify'.split(' '))

interface AnnotationContext {
  readonly hints: Definition
  readonly isTrusted: boolean
}

interface WeighedEvidence {
  readonly evidence: readonly Evidence[]
  readonly caveats: readonly string[]
}

/** Adds annotations to the evidence or removes evidence by them; absent hints have the protocol's defaults. */
function annotated(all: readonly Evidence[], { hints, isTrusted }: AnnotationContext): WeighedEvidence {
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

function raised(all: readonly Evidence[], effect: Effect, what: string): WeighedEvidence {
  return { evidence: [{ effect, text: `its server says ${what}` }, ...all], caveats: [] }
}

/** A trusted server's readOnlyHint is believed, unless the tool's name contradicts it. */
function readOnlyEvidence(
  all: readonly Evidence[],
  isTrusted: boolean,
  destructiveHint: unknown,
): WeighedEvidence {
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
function reassured(all: readonly Evidence[], isTrusted: boolean, readOnlyHint: unknown): WeighedEvidence {
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

// The judgement of one call: a tool is listed with its worst effect, but a call is treated by the effect of its own
// arguments.

/** The risk of each effect. */
export const riskOfEffect: Readonly<Record<Effect, Risk>> = {
  read: 'safe',
  write: 'reversible',
  destructive: 'destructive',
  execute: 'destructive',
}

/**
 * The kind of action of an effect; scopes distinguish deletion and administration from other destructive actions by the
 * verb.
 */
export function opOfEffect(effect: Effect, verb: string | undefined): Operation {
  if (effect !== 'destructive') return effect
  const kind = verb === undefined ? undefined : verbClass(verb)
  if (kind === 'admin') return 'admin'
  return kind === 'destructive' || kind === 'soft' ? 'delete' : 'write'
}

/** The descriptor of a tool with the classification of one call's arguments. */
export function asCalled(entry: Descriptor, { params }: { readonly params: Payload }): Descriptor {
  const { varies } = entry.classification
  if (!varies) return entry
  const given = params.fields.arguments
  const effect = effectOfCall(varies, isObject(given) ? given : {})
  return { ...entry, classification: natureOf(effect, entry.classification) }
}

function natureOf(effect: Effect, classification: Classification): Classification {
  const op = opOfEffect(effect, effect === 'destructive' ? classification.verb : undefined)
  const isRead = effect === 'read'
  return {
    ...classification,
    op,
    risk: riskOfEffect[effect],
    idempotent: isRead || classification.idempotent,
  }
}
