/**
 * Arguments that select what a call does, such as `action: list | delete`, and HTTP methods. A call is judged by the
 * value that it has; a value that is not known is as bad as the worst.
 */
import { wordsOf } from '../text/words.ts'
import { type Choice, type Effect, type Evidence, worst } from './evidence.ts'
import { verbClass } from './lexicon.ts'
import type { Argument } from './members.ts'
import { isReadableWord } from './description.ts'
import { objectEvidence } from './objects.ts'
import { evidenceOfName, readName } from './words.ts'

/** What is known of the tool apart from its arguments. */
interface Chooser {
  /** Its name says that it reads. */
  readonly isReading: boolean
  /** It gets, lists or finds. */
  readonly isRetrieving: boolean
  /** Its name and the first clause of its description say that it reads. */
  readonly isPlainRead: boolean
  /** Its name has a verb that does more than read, and not only runs something. */
  readonly isActing: boolean
  readonly text: string
  /** The words of its name. */
  readonly words: readonly string[]
}

/** An argument that selects what a call does, and what each value does, for people. */
export interface Selection {
  readonly choice: Choice
  readonly lines: readonly string[]
}

/** Last words of names of arguments that select an action. */
const selecting = new Set(
  'action actions operation operations method command op ops verb subcommand cmd'.split(' '),
)
/** They do so if all of their values are verbs. */
const maybeSelecting = new Set('mode type kind task function tool request event'.split(' '))

/** The argument that selects what a call does, if there is one. */
export function selectionOf(all: readonly Argument[], chooser: Chooser): Selection | undefined {
  const plainFirst = all.toSorted((one, other) => rankOf(one) - rankOf(other))
  for (const argument of plainFirst) {
    const found = isHttpMethod(argument, all, chooser)
      ? httpSelection(argument, all)
      : actionSelection(argument, chooser)
    if (found) return found
  }
  return undefined
}

/** Plain names of selectors come before `type` and `mode`, and outer ones before inner ones. */
function rankOf({ words, path }: Argument): number {
  return (selecting.has(words.at(-1) ?? '') ? 0 : 100) + path.length
}

function actionSelection(argument: Argument, chooser: Chooser): Selection | undefined {
  const last = argument.words.at(-1) ?? ''
  const isPlain = selecting.has(last)
  if ((!isPlain && !maybeSelecting.has(last)) || chooser.isActing) return undefined
  const listed = textsOf(argument.values ?? listedValues(argument))
  if (listed.length === 0) return undefined
  const isMath = /\b(?:math|maths|mathematical|arithmetic|calculator)\b/i.test(chooser.text)
  const effects = listed.map(
    (value) =>
      [
        value,
        isMath && /^(?:eval|evaluate|compute)$/i.test(value) ? 'read' : effectOfValue(value, chooser.words),
      ] as const,
  )
  const isKnown = effects.some(([, effect]) => effect !== undefined)
  const isAllKnown = effects.every(([, effect]) => effect !== undefined)
  const hasRead = effects.some(([, effect]) => effect === 'read')
  if (!isKnown || (!isPlain && !isAllKnown)) return undefined
  // "get_history(action: create | delete)" filters; "view_log(action: view | clear)" does not.
  if (chooser.isRetrieving && !hasRead) return undefined
  return selection(
    argument,
    effects.map(
      ([value, effect]) => [value, effect ?? (chooser.isPlainRead ? 'read' : 'destructive')] as const,
    ),
    chooser.isReading ? 'read' : 'destructive',
  )
}

/** A free text that selects an action: what the call does is not known. */
export function freeActionEvidence(all: readonly Argument[], chooser: Chooser): readonly Evidence[] {
  if (chooser.isActing || chooser.isReading) return []
  const free = all.find(
    ({ words, values, schema }) =>
      selecting.has(words.at(-1) ?? '') && words.at(-1) !== 'command' && !values && isText(schema),
  )
  return free
    ? [{ effect: 'destructive', text: `${free.name} is a free text that selects what is done` }]
    : []
}

function isText({ type }: Argument['schema']): boolean {
  return type === undefined || type === 'string' || (Array.isArray(type) && type.includes('string'))
}

const httpMethods = new Set('get head options post put patch delete trace connect'.split(' '))
const readingMethods = new Set('get head options'.split(' '))

function isHttpMethod(
  { words, values, description, schema }: Argument,
  all: readonly Argument[],
  { text }: Chooser,
): boolean {
  if (!/^(?:method|http method|request method|verb|http verb)$/.test(words.join(' '))) return false
  if (values) return textsOf(values).every((value) => httpMethods.has(keyOf(value)))
  const isHttp = /\bhttp|\brequest|\bapi\b|\bGET\b|\bPOST\b/i.test(`${text} ${description}`)
  return isText(schema) && isAddressed(all) && isHttp
}

/** Whether an argument says where a request goes. */
function isAddressed(all: readonly Argument[]): boolean {
  return all.some(({ words }) => /^(?:url|uri|endpoint|path|api path|route)$/.test(words.join(' ')))
}

function httpSelection(argument: Argument, all: readonly Argument[]): Selection {
  const worse: Effect = isAddressed(all) ? 'execute' : 'destructive'
  const listed = argument.values ? textsOf(argument.values) : [...httpMethods]
  return selection(
    argument,
    listed.map((value) => [value, readingMethods.has(keyOf(value)) ? 'read' : worse] as const),
    worse,
  )
}

function selection(
  { name, path, schema, isRequired, description, values }: Argument,
  effects: readonly (readonly [value: string, effect: Effect])[],
  whenMissing: Effect,
): Selection {
  const known = Object.fromEntries(effects.map(([value, effect]) => [keyOf(value), effect]))
  const all = effects.map(([, effect]) => effect)
  const fallback = defaultOf(schema, description)
  const otherwise = worst([...all, 'destructive'])
  const missing =
    fallback !== undefined
      ? Object.hasOwn(known, fallback)
        ? (known[fallback] ?? otherwise)
        : otherwise
      : isRequired || (whenMissing !== 'read' && !all.every((effect) => effect === 'read'))
        ? otherwise
        : 'read'
  const shown = effects.slice(0, MAX_SHOWN).map(([value, effect]) => `${value} (${wordOf(effect)})`)
  const more = effects.length > MAX_SHOWN ? `, and ${effects.length - MAX_SHOWN} more` : ''
  return {
    choice: { argument: name, path, effects: known, otherwise, missing, ...(isRequired && { isRequired }) },
    lines: [
      `${name} selects what a call does: ${shown.join(', ')}${more}`,
      `another value of ${name}${values ? '' : ', which is a free text,'} ${wordOf(otherwise)}, a call without it ${wordOf(missing)}`,
    ],
  }
}

const MAX_SHOWN = 40

function wordOf(effect: Effect): string {
  return { read: 'reads', write: 'writes', destructive: 'destroys', execute: 'executes' }[effect]
}

/** The declared default as text in lower case, also from "defaults to …". */
function defaultOf(schema: Argument['schema'], description: string): string | undefined {
  if (typeof schema.default === 'string') return schema.default.trim().toLowerCase()
  if (schema.default !== undefined && schema.default !== null) return ''
  const said = /\bdefaults?(?: is| to|:|=)+\s*['"`]?([A-Za-z][\w-]*)/i.exec(description)
  return said?.[1]?.toLowerCase()
}

/** Values that a description lists: in quotes, after "one of", or between bars. */
function listedValues({ description }: Argument): readonly string[] {
  const quoted = [...description.matchAll(/['"`]([A-Za-z][\w-]{1,30})['"`]/g)].flatMap(
    ([, value]) => value ?? [],
  )
  if (quoted.length > 1) return quoted
  const barred = /(?<![\w-])[A-Za-z][\w-]*(?:\s*[|/]\s*[A-Za-z][\w-]*)+/.exec(description)?.[0]
  if (barred !== undefined) return barred.split(/\s*[|/]\s*/)
  const listed =
    /(?:one of|options|values|operations?|actions?|either)\s*(?:are|is)?:?\s*([A-Za-z][\w, -]+)/i.exec(
      description,
    )?.[1]
  return listed?.split(/\s*(?:,|\bor\b|\band\b)\s*/).filter((value) => /^[A-Za-z][\w-]*$/.test(value)) ?? []
}

/** The texts among values, each once whatever its case. */
function textsOf(values: readonly unknown[]): readonly string[] {
  const texts = values.flatMap((value) => (typeof value === 'string' ? [value.trim()] : []))
  return [...new Map(texts.map((text) => [text.toLowerCase(), text])).values()]
}

/** A value as it is compared. */
function keyOf(value: string): string {
  return value.toLowerCase()
}

/** Operations of arithmetic and on texts, which change nothing. */
const pure = new Set(
  `
    add addition subtract subtraction multiply multiplication divide division sum difference product quotient power
    sqrt modulo mod abs mean median mode min max average round floor ceil factorial sin cos tan log ln exp percentage
    select uppercase lowercase upper lower reverse trim capitalize encode decode hash minify prettify beautify`
    .trim()
    .split(/\s+/),
)
const arithmetic = new Set('subtract multiply divide subtraction multiplication division'.split(' '))

/** The effect of a value by its verb; undefined if it has none that is known. */
function effectOfValue(value: string, subject: readonly string[] = []): Effect | undefined {
  if (keyOf(value) === 'select') return 'read'
  const name = readName(value, '')
  const { words, verbs } = name
  const own = evidenceOfName(name)
  const evidence = verbs.length === 0 ? own : [...own, ...objectEvidence(verbs, [...words, ...subject])]
  if (evidence.length === 0) return pure.has(keyOf(value)) || isReadableNoun(value) ? 'read' : undefined
  return worst(evidence.map(({ effect, verb }) => (verb !== undefined && isPassing(verb) ? 'write' : effect)))
}

function isPassing(verb: string): boolean {
  return verbClass(verb) === 'session'
}

/** "statistics", "server_info", "contains": what a value names can be read. */
function isReadableNoun(value: string): boolean {
  const words = wordsOf(value)
  const last = words.at(-1) ?? ''
  return (
    (words.length < 3 && isReadableWord(last)) ||
    /^(?:contains|range|exists|equals|matches|help|all|active|current|recent|latest|pending|upcoming|overview)$/.test(
      last,
    )
  )
}

/** Whether an argument selects an operation of arithmetic or on texts, where `add` changes nothing. */
export function isCalculation(all: readonly Argument[]): boolean {
  const values = all
    .filter(({ words }) => selecting.has(words.at(-1) ?? ''))
    .flatMap((argument) => textsOf(argument.values ?? listedValues(argument)))
  return (
    values.length > 0 &&
    values.every((value) => pure.has(keyOf(value))) &&
    values.some((each) => arithmetic.has(keyOf(each)) || !wordsOf(each).includes('add'))
  )
}

/** The values of actions that make a call of a tool worse, if its name or another argument says what it does. */
export function actionEvidence(all: readonly Argument[]): readonly Evidence[] {
  return all.flatMap(({ name, path, words, values, schema }): Evidence[] => {
    if (!selecting.has(words.at(-1) ?? '') || !values) return []
    const effects = textsOf(values).map((value) => [value, effectOfValue(value)] as const)
    const harmful = effects.filter(([, effect]) => isHarmful(effect))
    if (harmful.length === 0) return []
    const shown = harmful.slice(0, MAX_SHOWN).map(([value]) => `"${value}"`)
    return [
      {
        effect: worst(harmful.map(([, effect]) => effect ?? 'read')),
        text: `${name} can be ${shown.join(' or ')}`,
        when: {
          argument: name,
          path,
          is: 'value',
          harmless: effects.filter(([, effect]) => !isHarmful(effect)).map(([value]) => keyOf(value)),
          ...(schema.default !== undefined && { fallback: schema.default }),
        },
      },
    ]
  })
}

function isHarmful(effect: Effect | undefined): boolean {
  return effect === 'destructive' || effect === 'execute'
}
