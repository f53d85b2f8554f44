/**
 * Evidence from the arguments of a tool: languages it runs, selectors for many things at once, files it writes. Evidence
 * of an optional argument applies to the calls that use it.
 */
import { type Evidence, type Choice, type Effect, worst, type Condition } from './evidence.ts'
import { baseVerb, verbClass, isNoun } from './lexicon.ts'
import { type Argument, argumentsOf, isOuter } from './members.ts'
import { wordSet, wordsOf } from '../text/words.ts'
import { isReadableWord } from './description.ts'
import { objectEvidence } from './objects.ts'
import { evidenceOfName, readName } from './words.ts'
import { isObject } from '../json/json.ts'

/** What else is known of a tool when its arguments are examined. */
export interface About {
  /** Its name and description as one text. */
  readonly text: string
  /** The words of its name. */
  readonly words: readonly string[]
  /** Its verbs. */
  readonly verbs: readonly string[]
  /** Its name says that it reads. */
  readonly isReading: boolean
  /** It gets, lists or finds. */
  readonly isRetrieving: boolean
  /** Its name and the first clause of its description say that it reads. */
  readonly isPlainRead: boolean
  /** A verb shows that it does more than read. */
  readonly isActing: boolean
  /** Its name has a verb that does more than read, and not only runs something. */
  readonly isNamedActing: boolean
  /** A verb shows that it runs something. */
  readonly isExecuting: boolean
  /** Its verbs only add: create, append, insert, edit. */
  readonly isAdding: boolean
}

/** The evidence of a tool's arguments, without that of switches and choices. */
export function argumentEvidence(given: readonly Argument[], about: About): readonly Evidence[] {
  const all = given.filter(isOuter)
  return [
    ...all.flatMap((item) => languageEvidence(item, about, isLanguageChosen(all))),
    ...all.flatMap((item) => fileEvidence(item, about)),
    ...combinations.flatMap((each) => combinationEvidence(each, all, about)),
  ]
}

/** Whether results are described as counting what was changed or deleted. */
export function outputEvidence(outputSchema: unknown): readonly Evidence[] {
  const changed = argumentsOf(outputSchema).find(({ words }) =>
    words.some((word) =>
      /^(?:deleted|removed|dropped|destroyed|purged|truncated|affected|overwritten)$/.test(word),
    ),
  )
  return changed ? [{ effect: 'destructive', isSoft: true, text: `its result reports ${changed.name}` }] : []
}

/** Names of arguments that always contain a program. */
const programs =
  /^(?:sql|script|javascript|js code|python|bash|shell|cmd|command|commands|mutation|graphql|code snippet|dockerfile|source code|python code|javascript code)$/
/** Names of arguments that contain a program if the surrounding text says so. */
const maybePrograms =
  /^(?:query|queries|code|expression|function|functions|statement|statements|program|pipeline|operations|page function|eval|args|cypher|sql query|sql queries|query string|raw query|input)$/
const languages =
  /\b(?:sql|cypher|graphql|javascript|typescript|python|shell|bash|powershell|groovy|lua|aggregation|snippet|mongosh)\b|\bfunctions? (?:to|that will be) (?:execute|run|evaluate)|\bcode to (?:run|execute|evaluate)/i
const databaseLanguages = /\b(?:sql|cypher|graphql|mongosh|shell|bash|powershell|aggregation pipeline)\b/i
/** Languages that can only read, whatever is written in them. */
const readingLanguages =
  /\b(?:promql|logql|traceql|jql|cql|lucene|kql|esql|es\|ql|es_ql|query dsl|xpath|jsonpath|jq|css selector|regex|regular expression)\b/i

/** Whether an argument selects the programming language of another one. */
function isLanguageChosen(all: readonly Argument[]): boolean {
  return all.some(({ words, schema }) => {
    const choices = Array.isArray(schema.enum) ? schema.enum.join(' ') : ''
    return (
      words.join(' ') === 'language' && /\b(?:python|node|javascript|typescript|bash|sql)\b/i.test(choices)
    )
  })
}

function languageEvidence(argument: Argument, about: About, isChosen: boolean): Evidence[] {
  const { words, schema, name, path, description } = argument
  const label = words.join(' ')
  if (schema.type === 'boolean' || schema.type === 'number' || schema.type === 'integer') return []
  if (Array.isArray(schema.enum) || schema.const !== undefined) return []
  const around = `${description} ${about.text}`
  const isInit = /^(?:init|initialization|startup|on load|before load)(?: page)? scripts?$/.test(label)
  const isPlain = programs.test(label) && !readingLanguages.test(description)
  const isLikely =
    maybePrograms.test(label) &&
    (!about.isPlainRead || label === 'pipeline' || databaseLanguages.test(description)) &&
    !readingLanguages.test(around) &&
    (languages.test(description) ||
      (label === 'code' && isChosen) ||
      (languages.test(about.text) && about.isExecuting))
  if (!isInit && !isPlain && !isLikely) return []
  if (label === 'pipeline' && !about.isActing && /\b(?:aggregat|mongo)/i.test(around)) {
    return [
      {
        effect: 'destructive',
        text: `${name} can contain a stage that writes`,
        when: { argument: name, path, is: 'stores' },
      },
    ]
  }
  const text = `${name} takes a program or statement that the caller writes`
  return [
    { effect: 'execute', text, ...(!argument.isRequired && { when: { argument: name, path, is: 'given' } }) },
  ]
}

const files =
  /^(?:filename|file name|output|output file|output filename|output path|output dir|output directory|save to|save path|save as|save dir|save directory|file path to save|download path|download dir|downloads dir|local path|local file path|local directory|destination path|target path|target file|export path|pdf path|png path|image path to save)$/

/** A file that a reading tool writes its result to. */
function fileEvidence(
  { name, path, words, schema, isRequired, description }: Argument,
  about: About,
): Evidence[] {
  const label = words.join(' ')
  if (!files.test(label) || about.isActing || Array.isArray(schema.enum)) return []
  if (label === 'output' && !/\b(?:file|path)\b/i.test(description)) return []
  const isWritten =
    /\b(?:save|sav|writ|stor|output|download|export)/i.test(`${description} ${name}`) || isRequired
  if (!isWritten || /\b(?:to read|to load|to upload|input file)\b/i.test(description)) return []
  return [
    {
      // The caller chooses the location, so an existing file may be replaced.
      effect: isRequired ? 'destructive' : 'write',
      ...(isRequired && { isSoft: true }),
      text: `it writes a file if ${name} is given`,
      ...(!isRequired && { when: { argument: name, path, is: 'given' } }),
    },
  ]
}

/** Arguments that, with what else is known of a tool, show what its calls do. */
interface Combination {
  /** The names of arguments that have to be there together. */
  readonly names: readonly RegExp[]
  /** An argument that is true or false is another one. */
  readonly isNoSwitch?: true
  isMet(about: About): boolean
  text(...found: readonly string[]): string
  readonly isSoft?: true
  /** It applies to the calls that have the argument. */
  readonly isOfCalls?: true
}

const changing = wordSet(
  'archive assign change disable edit enable label mark modify move patch set tag update',
)

const combinations: readonly Combination[] = [
  {
    // A file is written as a whole, and its previous contents are lost.
    names: [
      /^(?:path|file path|filepath|filename|file name|file)$/,
      /^(?:content|contents|data|text|file content|file contents|body)$/,
    ],
    isMet: ({ isActing, isAdding, text }) =>
      isActing && !isAdding && /\bfile\b|\bnote\b|\bdocument\b/i.test(text),
    text: (path, content) => `${path} and ${content} replace a file as a whole`,
    isSoft: true,
  },
  {
    // One call changes everything that matches.
    names: [/^(?:filter|filters|where|where clause|selector|conditions?|criteria|match|query)$/],
    isNoSwitch: true,
    isMet: ({ verbs }) => verbs.some((verb) => changing.has(verb)),
    text: (selector) => `${selector} selects what is changed, which may be all`,
    isSoft: true,
  },
  {
    names: [/^(?:destination|dest|new path|new key|target path|destination path|new file path)$/],
    isMet: ({ verbs }) => verbs.some((verb) => verb === 'rename' || verb === 'move'),
    text: (target) => `an existing object at ${target} may be replaced`,
    isSoft: true,
  },
  {
    names: [/^(?:key|name|variable|path)$/, /^(?:value|new value)$/],
    isMet: ({ verbs }) => verbs.some((verb) => verb === 'set' || verb === 'put'),
    text: (key, value) => `${value} replaces what ${key} held`,
    isSoft: true,
  },
  {
    // Something is forwarded to an address from then on.
    names: [/^(?:forward|forward to|redirect to|forwarding address)$/],
    isMet: ({ isActing }) => isActing,
    text: (address) => `${address} sends things to an address`,
    isOfCalls: true,
  },
  {
    // A topic or thread with a text. A topic of a queue has none.
    names: [/^(?:raw|content|contents|body|text|message|markdown)$/],
    isMet: ({ verbs, text, isActing }) =>
      isActing &&
      verbs.some((verb) => verb === 'create' || verb === 'post' || verb === 'add') &&
      /\b(?:topic|thread|discussion|post|forum)\b/i.test(text.slice(0, 120)) &&
      !/\bdraft|comment/i.test(text.slice(0, 120)),
    text: (content) => `${content} is published`,
  },
]

function combinationEvidence(
  { names, isNoSwitch, isMet, text, isSoft, isOfCalls }: Combination,
  all: readonly Argument[],
  about: About,
): Evidence[] {
  const found = names.map((name) =>
    all.find(({ words, schema }) => name.test(words.join(' ')) && !(isNoSwitch && schema.type === 'boolean')),
  )
  const [first] = found
  const there = found.flatMap((each) => each?.name ?? [])
  if (!first || there.length < names.length || !isMet(about)) return []
  const isOptional = isOfCalls === true && !first.isRequired
  return [
    {
      effect: 'destructive',
      text: text(...there),
      ...(isSoft && { isSoft }),
      ...(isOptional && { when: { argument: first.name, path: first.path, is: 'given' } }),
    },
  ]
}

/** Whether any of the words is a verb of one of the classes. */
export function hasVerb(words: readonly string[], kinds: readonly string[]): boolean {
  return words.some((word) => {
    const verb = baseVerb(word)
    return verb !== undefined && kinds.includes(verbClass(verb) ?? '')
  })
}

/*
 * Arguments that select what a call does, such as `action: list | delete`, and HTTP methods. A call is judged by the
 * value that it has; a value that is not known is as bad as the worst.
 */

/** An argument that selects what a call does, and what each value does, for people. */
export interface Selection {
  readonly choice: Choice
  readonly lines: readonly string[]
}

/** Last words of names of arguments that select an action. */
const selecting = wordSet('action actions operation operations method command op ops verb subcommand cmd')
/** They do so if all of their values are verbs. */
const maybeSelecting = wordSet('mode type kind task function tool request event')

/** The argument that selects what a call does, if there is one. */
export function selectionOf(all: readonly Argument[], about: About): Selection | undefined {
  const plainFirst = all.toSorted((one, other) => rankOf(one) - rankOf(other))
  for (const argument of plainFirst) {
    const found = isHttpMethod(argument, all, about)
      ? httpSelection(argument, all)
      : actionSelection(argument, about)
    if (found) return found
  }
  return undefined
}

/** Plain names of selectors come before `type` and `mode`, and outer ones before inner ones. */
function rankOf({ words, path }: Argument): number {
  return (selecting.has(words.at(-1) ?? '') ? 0 : 100) + path.length
}

function actionSelection(argument: Argument, about: About): Selection | undefined {
  const last = argument.words.at(-1) ?? ''
  const isPlain = selecting.has(last)
  if ((!isPlain && !maybeSelecting.has(last)) || about.isNamedActing) return undefined
  const listed = textsOf(argument.values ?? listedValues(argument))
  if (listed.length === 0) return undefined
  const isMath = /\b(?:math|maths|mathematical|arithmetic|calculator)\b/i.test(about.text)
  const effects = listed.map(
    (value) =>
      [
        value,
        isMath && /^(?:eval|evaluate|compute)$/i.test(value) ? 'read' : effectOfValue(value, about.words),
      ] as const,
  )
  const isKnown = effects.some(([, effect]) => effect !== undefined)
  const isAllKnown = effects.every(([, effect]) => effect !== undefined)
  const hasRead = effects.some(([, effect]) => effect === 'read')
  if (!isKnown || (!isPlain && !isAllKnown)) return undefined
  // "get_history(action: create | delete)" filters; "view_log(action: view | clear)" does not.
  if (about.isRetrieving && !hasRead) return undefined
  return selection(
    argument,
    effects.map(
      ([value, effect]) => [value, effect ?? (about.isPlainRead ? 'read' : 'destructive')] as const,
    ),
    about.isReading ? 'read' : 'destructive',
  )
}

/** A free text that selects an action: what the call does is not known. */
export function freeActionEvidence(all: readonly Argument[], about: About): readonly Evidence[] {
  if (about.isNamedActing || about.isReading) return []
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

const httpMethods = wordSet('get head options post put patch delete trace connect')
const readingMethods = wordSet('get head options')

function isHttpMethod(
  { words, values, description, schema }: Argument,
  all: readonly Argument[],
  { text }: About,
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
const pure = wordSet(`
    add addition subtract subtraction multiply multiplication divide division sum difference product quotient power
    sqrt modulo mod abs mean median mode min max average round floor ceil factorial sin cos tan log ln exp percentage
    select uppercase lowercase upper lower reverse trim capitalize encode decode hash minify prettify beautify
`)
const arithmetic = wordSet('subtract multiply divide subtraction multiplication division')

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

/** Whether a verb shows that the tool does more than read, and whether one shows that it changes what exists. */
type Acting = Readonly<Record<'isActing' | 'isChanging', boolean>>

/** The argument that makes a call a dry run without changes, if a tool has one. */
export function dryRunOf(all: readonly Argument[]): readonly string[] | undefined {
  return all
    .filter(isOuter)
    .find(({ words }) =>
      /^(?:dry run|dryrun|preview only|simulate|validate only|what if|plan only|check only|simulation|no op|noop)$/.test(
        words.join(' '),
      ),
    )?.path
}

/** The evidence of switches and of values. */
export function switchEvidence(all: readonly Argument[], acting: Acting): readonly Evidence[] {
  return all.flatMap((argument) => [
    ...booleanEvidence(argument, acting),
    ...harmfulValueEvidence(argument, acting),
    ...people.flatMap((each) => givenEvidence(each, argument, acting)),
  ])
}

const worsening =
  /^(?:force|forced|overwrite|recursive|cascade|purge|hard|permanent|permanently|clobber|destroy|all|everything|skip trash|ignore errors none|no confirm|skip confirmation|immediate|immediately)(?: \w+)?$/
/** Switches that discard something, even of a tool that otherwise only reads. */
const discarding = /^(?:reset|purge|wipe|destroy|prune|delete|hard delete|overwrite existing)(?: \w+)?$/
/** Switches that publish something or notify people. */
const publishing =
  /^(?:(?:is )?public(?:ly)?(?: \w+)?|external|publish(?: \w+)?|make public|anonymous(?: access)?|(?:send|notify|email)(?: (?:email|emails|notification|notifications|invite|invites|updates|users|people|attendees|guests|customer|now|immediately|welcome email))?)$/
/** Switches that give rights or take protection away. */
const granting =
  /^(?:(?:is |as |make |set |grant )?(?:superuser|super user|admin|administrator|root|sudo|owner|privileged|full access|all privileges|bypass\w*|unrestricted|can login|createdb|createrole|replication)(?: \w+)?|(?:bypass|grant|impersonate|elevate|disable|allow|skip|ignore|no|without)(?: \w+)* (?:admin|security|auth|authentication|authorization|verification|mfa|sandbox|protection|access|privileges|permissions|tls verify|ssl verify|public access|all))$/

/** Words before which a verb is about something else: "skip_delete", "include_deleted", "on_delete". */
const harmlessBefore =
  /^(?:no|not|skip|without|prevent|avoid|keep|dont|disable|include|show|with|exclude|only|is|was|has|can|on|after|before|if|allow|return|list|count|filter|preview|ask|confirm|max|min)$/

function booleanEvidence(
  { name, path, words, schema, description }: Argument,
  { isActing }: Acting,
): Evidence[] {
  if (!isBoolean(schema)) return []
  const label = words.join(' ')
  // Far inside, it is data: a mail rule that deletes.
  const isData = path.filter((step) => step !== '*').length > 2
  const when: Condition = { argument: name, path, is: 'given', ...fallbackOf(schema) }
  const found = (text: string): Evidence[] => [{ effect: 'destructive', text: `${name} ${text}`, when }]
  if (isActing && publishing.test(label)) return found('makes it public, or notifies people')
  if (isActing && granting.test(label)) return found('gives rights, or takes protection away')
  if (isData) return []
  if (discarding.test(label)) return found('makes it worse')
  if (!isActing) return []
  // "stop_on_error": when the work ends.
  if (/^(?:stop|abort|fail|halt|exit|pause|retry|cancel|continue) (?:on|if|when|at|after)\b/.test(label))
    return []
  if (worsening.test(label)) return found('makes it worse')
  const verb =
    harmfulVerb(words) ?? (harmlessBefore.test(words[0] ?? '') ? undefined : describedVerb(description))
  return verb === undefined ? [] : found(`makes it worse: it says "${verb}"`)
}

/** What the description of a switch says that it does: "If true, delete what exists", "Whether to overwrite". */
function describedVerb(description: string): string | undefined {
  const found =
    /\b(?:whether to|(?:if|when) (?:it is )?(?:true|set|enabled|given),?|set (?:it )?to true to|true to)\s+(?:(?:also|first|permanently|automatically|the tool|it|will)\s+)*(\w+)/i.exec(
      description,
    ) ?? /^\W*(?:(?:also|first|permanently)\s+)?(\w+)/i.exec(description)
  const verb = baseVerb((found?.[1] ?? '').toLowerCase())
  const isHarmful = verb !== undefined && (verbClass(verb) === 'destructive' || verbClass(verb) === 'outward')
  return isHarmful && !/^\W*(?:\w+ )?(?:force|sort|order)\b/i.test(description) ? verb : undefined
}

/** The verb of a switch that destroys something: "truncateFirst", "and_delete_source". */
function harmfulVerb(words: readonly string[]): string | undefined {
  const [first = ''] = words
  if (harmlessBefore.test(first) && words.length > 1 && first !== 'allow') return undefined
  return words.find((word, at) => {
    const verb = baseVerb(word)
    if (verb === undefined || verb !== word || (at > 0 && isNoun(verb) && at !== words.length - 1))
      return false
    const kind = verbClass(verb)
    return (kind === 'destructive' || kind === 'execute' || kind === 'outward') && !(isNoun(verb) && at > 0)
  })
}

function isBoolean({ type, anyOf, oneOf }: Argument['schema']): boolean {
  if (type === 'boolean') return true
  if (Array.isArray(type)) return type.includes('boolean')
  const choices: readonly unknown[] = [anyOf, oneOf].find(Array.isArray) ?? []
  return choices.some((each) => isObject(each) && each.type === 'boolean')
}

function fallbackOf(schema: Argument['schema']): Pick<Condition, 'fallback'> {
  return schema.default === undefined ? {} : { fallback: schema.default }
}

/** Values that destroy, publish or give rights, of arguments that do not select the action. */
const harmfulValues =
  /^(?:overwrite|replace|replace_?all|truncate|drop|drop_?and_?create|recreate|wipe|purge|delete|delete_?all|destroy|force|hard|permanent(?:ly)?|cascade|public|everyone|anyone|world|all_?users|internet|owner|admin|administrator|superuser|root|full_?access|full_?control|write_?all)$/
const maySelectAccess =
  /\b(?:role|permission|permissions|access|visibility|privacy|acl|scope|privilege|privileges|level|audience)\b/
const maySelectMode =
  /\b(?:mode|strategy|policy|behavior|behaviour|exists|conflict|type|disposition|method|action|operation|write)\b/

function harmfulValueEvidence(
  { name, path, words, schema, values }: Argument,
  { isActing }: Acting,
): Evidence[] {
  if (!isActing || !values) return []
  const label = words.join(' ')
  if (!maySelectAccess.test(label) && !maySelectMode.test(label)) return []
  const texts = values.flatMap((value) => (typeof value === 'string' ? [value.toLowerCase()] : []))
  const harmful = texts.filter((value) => harmfulValues.test(value))
  if (harmful.length === 0) return []
  const harmless = texts.filter((value) => !harmful.includes(value))
  return [
    {
      effect: 'destructive',
      text: `${name} can be ${harmful.map((value) => `"${value}"`).join(' or ')}`,
      when: { argument: name, path, is: 'value', harmless, ...fallbackOf(schema) },
    },
  ]
}

/** Arguments that concern people or their rights, by the end of their names. */
const people: readonly {
  readonly name: RegExp
  readonly needs: keyof Acting
  /** Also where it is in each item of a list. */
  readonly isInner?: true
  readonly text: string
  readonly isSoft?: true
}[] = [
  {
    name: /^(?:attendees|invitees|attendee emails|guests|guest emails|invite emails)$/,
    needs: 'isActing',
    text: 'are invited',
    isSoft: true,
  },
  {
    // What is signed binds the owner of the key.
    name: /^(?:(?:wallet|signer|sender|from|owner) )?(?:private key|mnemonic|seed phrase|secret key|keypair)$/,
    needs: 'isActing',
    isInner: true,
    text: 'signs what is done',
  },
  {
    name: /(?:^| )(?:password|secret|passphrase|role|roles|permissions|privileges|acl|scopes|groups|users|members|collaborators|owners|admins|principals|grants)$/,
    needs: 'isChanging',
    text: 'replaces a secret or rights',
    isSoft: true,
  },
]

/** Evidence of the calls that have an argument: of all of them if it is required, which may be soft. */
function givenEvidence(
  { name, needs, isInner, text, isSoft }: (typeof people)[number],
  { name: argument, path, words, isRequired, schema }: Argument,
  acting: Acting,
): Evidence[] {
  if (!acting[needs] || (!isInner && path.includes('*')) || !name.test(words.join(' '))) return []
  const applies = isRequired
    ? { ...(isSoft && { isSoft }) }
    : { when: { argument, path, is: 'given' as const, ...fallbackOf(schema) } }
  return [{ effect: 'destructive', text: `${argument} ${text}`, ...applies }]
}
