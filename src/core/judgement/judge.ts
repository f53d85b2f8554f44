/**
 * Judges the effect of a tool from everything known before it runs: its name, title, description, arguments, output and
 * annotations, and the list that it is in. The worst evidence wins; reassuring declarations of its server count only if
 * the server is trusted and no plain evidence contradicts them. A tool is only said to read if its name or the main verb
 * of its description says so; one without any evidence is considered destructive.
 *
 * A judgement applies to the tool; `call.ts` selects the part of it that applies to one call.
 */
import { asObject, isObject } from '../json/json.ts'
import { statedTool } from '../stated-tool.ts'
import {
  type About,
  argumentEvidence,
  hasVerb,
  outputEvidence,
  actionEvidence,
  freeActionEvidence,
  isCalculation,
  type Selection,
  selectionOf,
  dryRunOf,
  switchEvidence,
} from './arguments.ts'
import { type Description, readDescription } from './description.ts'
import {
  type Choice,
  type Effect,
  effectRanks,
  type Evidence,
  type Variation,
  worse,
  worst,
} from './evidence.ts'
import { isGoverning, isNoun, isVague, verbClass } from './lexicon.ts'
import { type Argument, argumentsOf } from './members.ts'
import { hasDefaults, noSurroundings, type Surroundings } from './surroundings.ts'
import { evidenceOfName, type NameReading, readName, titleEvidence } from './words.ts'
import { wordSet } from '../text/words.ts'

/** The effect of a tool, and the evidence for it. */
export interface Judgement extends Variation {
  /** The effect of its worst call. */
  readonly effect: Effect
  /** The decisive verb, if any. */
  readonly verb?: string
  /** Its hints were filled in by a library and are disregarded. */
  readonly ignoresHints?: true
  /** The evidence, decisive reason first; for people. */
  readonly evidence: readonly string[]
}

/** What is known of the server of a tool. */
export interface Context {
  readonly server: string
  /** Whether its reassuring annotations are believed. */
  readonly isTrusted: boolean
  /** What its whole list says, if that is known. */
  readonly around?: Surroundings
}

type Definition = Readonly<Record<string, unknown>>

/** Judges an entry of `tools/list`. */
export function judge(
  definition: Definition,
  { server, isTrusted, around = noSurroundings }: Context,
): Judgement {
  const all = argumentsOf(definition.inputSchema)
  const hints = asObject(definition.annotations)
  const words = readWords(definition, hints, { server, around, all })
  const about = aboutOf(words)
  const selection = selectionOf(all, about)
  const others = all.filter(({ name }) => name !== selection?.choice.argument)
  const ofArguments = [
    ...argumentEvidence(all, about),
    ...switchEvidence(others, {
      isChanging:
        about.verbs.some((verb) => changing.has(verb)) || selection?.choice.effects.update !== undefined,
      isActing: about.isActing || selection !== undefined || words.evidence.length === 0,
    }),
    ...(about.isNamedActing || selection ? actionEvidence(others) : []),
  ]
  const ignored = ignoredHints(definition, around, words.isPlainRead)
  const weighing = { hints, isTrusted, ...(ignored !== undefined && { ignored }) }
  const noted = ignored === undefined ? {} : { ignoresHints: true as const }
  if (selection) {
    const chosen = weighedSelection(selection, words.warnings, weighing)
    const evidence = [...ofArguments, ...statedEvidence(definition)]
    return { ...judgementOf({ evidence, caveats: chosen.lines }, all, chosen.choice), ...noted }
  }
  const output = words.isPlainRead ? [] : outputEvidence(definition.outputSchema)
  const evidence = [...words.evidence, ...freeActionEvidence(all, about), ...ofArguments, ...output]
  const found = weighed([...evidence, ...unclear(words, evidence, all)], weighing)
  const withStated = { ...found, evidence: [...found.evidence, ...statedEvidence(definition)] }
  return { ...judgementOf(withStated, all), ...noted }
}

/** The risk that a server states of a tool. It is believed where it is higher, as no evidence lowers another. */
function statedEvidence(definition: Definition): readonly Evidence[] {
  const { risk } = statedTool(definition)
  if (risk === undefined || risk === 'safe') return []
  const effect = risk === 'destructive' ? 'destructive' : 'write'
  return [{ effect, text: `its server says risk_level: ${risk}` }]
}

function judgementOf({ evidence, caveats }: Weighed, all: readonly Argument[], choice?: Choice): Judgement {
  const base = evidence.filter((item) => !item.when)
  const conditions = evidence.flatMap((item) => (item.when ? [{ ...item, when: item.when }] : []))
  const baseEffect = worst(base.map(({ effect }) => effect))
  const ordered = evidence.toSorted((one, other) => effectRanks[other.effect] - effectRanks[one.effect])
  const chosen = choice
    ? worst([...Object.values(choice.effects), ...(choice.isRequired ? [] : [choice.missing])])
    : 'read'
  const effect = conditions.reduce<Effect>(
    (found, each) => worse(found, each.effect),
    worse(baseEffect, chosen),
  )
  const dryRun = dryRunOf(all)
  const verb = ordered.find((item) => item.effect === effect && item.verb !== undefined)?.verb
  return {
    effect,
    baseEffect,
    conditions: conditions.filter((condition) => effectRanks[condition.effect] > effectRanks[baseEffect]),
    ...(choice && { choice }),
    ...(dryRun !== undefined && { dryRun }),
    ...(verb !== undefined && { verb }),
    evidence: [
      ...(choice ? caveats : []),
      ...ordered.map(evidenceText),
      ...(choice ? [] : caveats),
      ...(dryRun === undefined ? [] : [`calls with ${dryRun.join('.')}: true change nothing`]),
    ],
  }
}

function evidenceText({ text, when }: Evidence): string {
  if (!when || when.is === 'stores') return text
  if (when.is === 'given') {
    const isOn = when.fallback !== undefined && when.fallback !== false && when.fallback !== null
    return `${text} (only calls with ${when.argument}${isOn ? ', or without it, as that is its default' : ''})`
  }
  return `${text} (only such calls)`
}

/** What the words of a tool say. */
interface Words {
  readonly name: NameReading
  readonly description: Description
  readonly text: string
  readonly evidence: readonly Evidence[]
  readonly warnings: readonly Evidence[]
  /** Its name says that it reads, and so does the main verb of its description, if there is one. */
  readonly isPlainRead: boolean
  /** Neither its name nor the main verb of its description says what it does. */
  readonly isUnclear: boolean
}

interface WordContext {
  readonly server: string
  readonly around: Surroundings
  readonly all: readonly Argument[]
}

function readWords(definition: Definition, hints: Definition, { server, around, all }: WordContext): Words {
  const given = String(definition.name)
  const text = typeof definition.description === 'string' ? definition.description : ''
  const description = readDescription(text)
  const { main } = description
  const isReadMain =
    main === 'thing' || main === 'question' || (typeof main === 'object' && isReading(main.verb))
  const read = readName(given, server, around)
  // "list_send: Lists …": the description says which of the two is the verb.
  const isOtherwise = read.otherwise !== undefined && isReadMain
  // "model_eval_list_runs: List …": words before the verb that can be nouns are nouns.
  const said = typeof main === 'object' ? main.verb : ''
  const before = read.words.slice(0, Math.max(0, read.words.indexOf(said)))
  const isSaid =
    isReadMain &&
    before.length > 0 &&
    read.verbs.every((verb) => verb === said || (isNoun(verb) && before.includes(verb)))
  const name: NameReading =
    isOtherwise || isSaid
      ? { ...read, verbs: [isSaid ? said : (read.otherwise ?? '')] }
      : isReadMain && read.verbs[0] === 'evaluate'
        ? { ...read, verbs: ['compute'] }
        : read
  const isCalculating = isPureCalculation(name, text, all)
  const named = isCalculating ? [] : evidenceOfName(name)
  // "boost_status: Boost a status": the name ends with a noun, and its verb is not known.
  const isNounOnly =
    main === 'unknown' &&
    name.verbs.every((verb) => isNoun(verb) && !collecting.has(verb)) &&
    name.verbs[0] !== name.words[0]
  const isReadName = name.verbs.length > 0 && name.verbs.every(isReading) && !isNounOnly
  const isPlainRead =
    isCalculating ||
    ((isReadName || (name.verbs.length === 0 && !isVague(name.words[0] ?? ''))) && isReadMain)
  const titles = [definition.title, hints.title].filter((item) => typeof item === 'string')
  const warnings = description.warnings.filter(
    ({ effect, isOfActs }) => !isPlainRead || (effect !== 'execute' && !isOfActs),
  )
  const isVagueName = isVague(name.words[0] ?? '') && name.verbs.length === 0
  return {
    name,
    description,
    text: `${given.replaceAll(/[_-]/g, ' ')} ${text}`,
    evidence: isCalculating
      ? [{ effect: 'read', text: 'it calculates' }]
      : [
          ...named,
          ...(isPlainRead && named.length > 0 ? [] : [...new Set(titles)].flatMap(titleEvidence)),
          ...(isPlainRead
            ? description.evidence.filter(({ verb }) => verb !== 'confirm')
            : description.evidence),
          ...(isPlainRead ? [] : description.second),
          ...(main === 'thing'
            ? [{ effect: 'read' as const, text: 'its description names what it returns' }]
            : []),
          ...(main === 'question'
            ? [{ effect: 'read' as const, text: 'its description asks something' }]
            : []),
          ...warnings,
        ],
    warnings,
    isPlainRead,
    isUnclear:
      !isCalculating &&
      !isReadMain &&
      (isVagueName || main === 'vague' || main === undefined || main === 'unknown') &&
      (name.verbs.length === 0 || isNounOnly),
  }
}

const collecting = wordSet('list search query lookup count show')

function isReading(verb: string): boolean {
  return verbClass(verb) === 'read'
}

const sums = wordSet('add subtract multiply divide sum average')

/** "add(a: number, b: number)", "calculator(operation: add | divide)". */
function isPureCalculation({ verbs, words }: NameReading, text: string, all: readonly Argument[]): boolean {
  if (isCalculation(all)) return true
  const [first = ''] = words
  const isSum = sums.has(first) && verbs.every((verb) => sums.has(verb))
  const isOfNumbers =
    words.length === 1 || /\b(?:numbers?|integers?|floats?|arithmetic|mathematic\w*)\b/i.test(text)
  return isSum && isOfNumbers && all.length > 0 && all.every(({ schema }) => isNumeric(schema))
}

function isNumeric({ type, items }: Argument['schema']): boolean {
  if (type === 'array') return isObject(items) && isNumeric(items)
  return type === 'number' || type === 'integer'
}

function aboutOf({ name, text, evidence, isPlainRead }: Words): About {
  const verbs = evidence.flatMap(({ verb }) => verb ?? [])
  const acting = evidence.filter(({ effect }) => effect !== 'read')
  const executing = hasVerb(verbs, ['execute'])
  return {
    text,
    words: name.words,
    verbs,
    isPlainRead,
    isReading: name.verbs.length > 0 && name.verbs.every(isReading),
    isRetrieving: name.verbs.length > 0 && name.verbs.every(isGoverning),
    isActing: acting.length > 0,
    isNamedActing: name.verbs.some(
      (verb) =>
        !isReading(verb) &&
        verbClass(verb) !== 'execute' &&
        !(isNoun(verb) && (name.words.length === 1 || name.words[0] !== verb)),
    ),
    isExecuting: executing || acting.some(({ effect }) => effect === 'execute') || verbs.includes('query'),
    isAdding: acting.length > 0 && verbs.every((verb) => adding.has(verb) || isReading(verb)),
  }
}

const adding = wordSet('create add insert append edit comment annotate patch modify')

const changing = wordSet('update set change edit modify patch reset configure put')

/** A tool that nothing says is reading, although some words do: what it does first is not known. */
function unclear(
  { name, isUnclear, description }: Words,
  evidence: readonly Evidence[],
  all: readonly Argument[],
) {
  const isAllRead = evidence.every(({ effect, when }) => effect === 'read' || when !== undefined)
  const isInProgram = evidence.some(({ effect, when }) => effect === 'execute' && when !== undefined)
  if (!isUnclear || evidence.length === 0 || !isAllRead || isInProgram) return []
  // "Roll a die", with numbers: nothing could be harmed.
  const isWeak = all.length > 0 && !hasTarget(all) && description.main !== 'vague'
  if (isWeak) return []
  const said = name.words[0] ?? ''
  return [{ effect: 'destructive' as const, text: `"${said}" does not say what it does` }]
}

/** Whether an argument names something that could be harmed: neither a number nor a text to work with. */
function hasTarget(all: readonly Argument[]): boolean {
  return all.some(({ schema, words, values }) => {
    if (isNumeric(schema) || schema.type === 'boolean' || values) return false
    return !plainText.test(words.join(' '))
  })
}

const plainText =
  /^(?:text|texts|topic|query|question|word|words|phrase|sentence|string|language|unit|units|format|timezone|time zone|zone|city|location|country|symbol|ticker|keyword|keywords|date|expression|formula|locale|currency|a|b|x|y|n|from unit|to unit)$/

/** Why the hints of a tool are disregarded; undefined if they count. */
function ignoredHints(definition: Definition, { isFilled, isComplete }: Surroundings, isPlainRead: boolean) {
  if (isFilled)
    return 'its hints are not counted: all tools of its server have the defaults of MCP, which a library fills in'
  if (!isComplete || !isPlainRead || !isObject(definition.annotations)) return undefined
  const { readOnlyHint, destructiveHint } = definition.annotations
  if (hasDefaults(definition) || (readOnlyHint === true && destructiveHint === true))
    return 'its hints are not counted: a library fills them in for all tools of its server, and its words say that it reads'
  return undefined
}

/** A selection with what the hints and the warnings of the tool add. */
function weighedSelection(
  { choice, lines }: Selection,
  warnings: readonly Evidence[],
  { hints, isTrusted, ignored }: Weighing,
): { readonly choice: Choice; readonly lines: readonly string[] } {
  const known = Object.values(choice.effects)
  const isHarmful = known.some((effect) => effectRanks[effect] >= effectRanks.destructive)
  const warned = isHarmful ? [] : warnings.filter(({ effect }) => effect === 'destructive')
  const { readOnlyHint, destructiveHint } = ignored === undefined ? hints : {}
  // A hint of the tool is about its worst action: where one is known to destroy, it says nothing of the others.
  const isDeclared =
    !isHarmful && (destructiveHint === true || (readOnlyHint === false && destructiveHint === undefined))
  const isBelieved = isTrusted && readOnlyHint === true
  const raised = (effect: Effect): Effect =>
    effect === 'write' && (isDeclared || warned.length > 0) ? 'destructive' : effect
  const more = [
    ...(isDeclared
      ? [
          `its server says ${destructiveHint === true ? 'destructiveHint: true' : 'readOnlyHint: false'}, which counts for the values that do not read`,
        ]
      : []),
    ...(isBelieved ? ['its server says readOnlyHint: true, which counts for other values'] : []),
    ...warned.map(({ text }) => text),
    ...(ignored === undefined ? [] : [ignored]),
  ]
  return {
    choice: {
      ...choice,
      effects: Object.fromEntries(
        Object.entries(choice.effects).map(([value, effect]) => [value, raised(effect)]),
      ),
      otherwise: isBelieved ? 'read' : choice.otherwise,
      missing: isBelieved && choice.missing === choice.otherwise ? 'read' : raised(choice.missing),
    },
    lines: [...lines, ...more],
  }
}

/*
 * Weighs the annotations of a tool against the other evidence. Absent hints have the defaults of MCP; reassuring ones
 * count only if the server is trusted, and not against the name of the tool.
 */

/** What the hints are weighed against. */
interface Weighing {
  readonly hints: Readonly<Record<string, unknown>>
  readonly isTrusted: boolean
  /** Why the hints are disregarded; absent if they count. */
  readonly ignored?: string
}

/** Evidence after the hints are weighed, and which of them were not counted, for people. */
interface Weighed {
  readonly evidence: readonly Evidence[]
  readonly caveats: readonly string[]
}

/** Adds annotations to the evidence or removes evidence by them. */
function weighed(all: readonly Evidence[], { hints, isTrusted, ignored }: Weighing): Weighed {
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
const plainWrites = wordSet('create add insert update modify edit rename submit upload write')

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
