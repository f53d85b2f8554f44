/**
 * Evidence from the arguments of a tool: languages it runs, selectors for many things at once, files it writes,
 * switches that make it worse or harmless. Evidence of an optional argument applies to the calls that use it.
 */
import { isObject } from '../json/json.ts'
import { wordsOf } from '../text/words.ts'
import { type Evidence, baseVerb, verbClass } from './lexicon.ts'
import { nameEvidence } from './words.ts'

type Schema = Readonly<Record<string, unknown>>

interface Argument {
  readonly name: string
  readonly path: readonly string[]
  readonly words: readonly string[]
  readonly schema: Schema
  readonly isRequired: boolean
  readonly description: string
}

/** What else is known of a tool when its arguments are examined. */
export interface About {
  /** Its name and description as one text. */
  readonly text: string
  /** Its verbs. */
  readonly verbs: readonly string[]
  /** A verb shows that it does more than read. */
  readonly isActing: boolean
  /** A verb shows that it runs something. */
  readonly isExecuting: boolean
  /** Its verbs only add: create, append, insert, edit. */
  readonly isAdding: boolean
}

const MAX_ARGUMENTS = 200

/** The evidence of a tool's input schema. */
export function argumentEvidence(inputSchema: unknown, about: About): readonly Evidence[] {
  const all = argumentsOf(inputSchema)
  return [
    ...all.flatMap((item) => languageEvidence(item, about, isLanguageChosen(all))),
    ...all.flatMap((item) => choiceEvidence(item)),
    ...all.flatMap((item) => switchEvidence(item, about)),
    ...all.flatMap((item) => fileEvidence(item, about)),
    ...wholeFileEvidence(all, about),
    ...requestEvidence(all, about),
    ...bulkEvidence(all, about),
    ...targetEvidence(all, about),
    ...valueEvidence(all, about),
    ...forwardingEvidence(all, about),
  ]
}

/** The argument that makes a call a dry run without changes, if a tool has one. */
export function dryRunArgument(inputSchema: unknown): readonly string[] | undefined {
  return argumentsOf(inputSchema).find(({ words }) =>
    /^(?:dry run|dryrun|preview only|simulate|validate only|what if|plan only|check only)$/.test(
      words.join(' '),
    ),
  )?.path
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

/** Arguments, and the members of arguments that only wrap others. References within a schema are followed. */
function argumentsOf(schema: unknown): readonly Argument[] {
  const own = membersOf(schema, schema, [])
  const wrapped = own.flatMap(({ path, words, schema: member }) =>
    wrappers.has(words.join(' ')) ? membersOf(member, schema, path) : [],
  )
  return [...own, ...wrapped].slice(0, MAX_ARGUMENTS)
}

const wrappers = new Set(
  'params parameters args arguments input request options payload body action'.split(' '),
)

function membersOf(given: unknown, root: unknown, above: readonly string[]): readonly Argument[] {
  const schema = resolved(given, root)
  if (!schema || !isObject(schema.properties)) return []
  const required = new Set<unknown>(Array.isArray(schema.required) ? schema.required : [])
  return Object.entries(schema.properties)
    .slice(0, MAX_ARGUMENTS)
    .map(([name, value]) => {
      const own = resolved(value, root) ?? {}
      const description = typeof own.description === 'string' ? own.description : ''
      const path = [...above, name]
      return {
        name: path.join('.'),
        path,
        words: wordsOf(name),
        schema: own,
        isRequired: required.has(name),
        description,
      }
    })
}

/** A schema, or the one in the same document that it refers to. */
function resolved(given: unknown, root: unknown): Schema | undefined {
  if (!isObject(given)) return undefined
  const { $ref: reference } = given
  if (typeof reference !== 'string' || !reference.startsWith('#/')) return given
  const found = reference
    .slice(2)
    .split('/')
    .reduce<unknown>(
      (value, step) => (isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined),
      root,
    )
  return isObject(found) ? found : undefined
}

/** Names of arguments that always contain a program. */
const programs =
  /^(?:sql|script|javascript|js code|python|bash|shell|cmd|command|commands|mutation|graphql|code snippet|dockerfile|source code|python code|javascript code)$/
/** Names of arguments that contain a program if the surrounding text says so. */
const maybePrograms =
  /^(?:query|queries|code|expression|function|functions|statement|statements|program|pipeline|operations|page function|eval|args|cypher|sql query|sql queries|query string|raw query|input)$/
const languages =
  /\b(?:sql|cypher|graphql|javascript|typescript|python|shell|bash|powershell|groovy|lua|aggregation|snippet|mongosh)\b|\bfunctions? (?:to|that will be) (?:execute|run|evaluate)|\bcode to (?:run|execute|evaluate)/i
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

/** An argument that selects the action: the worst choice counts, for calls that make it. */
function choiceEvidence({ name, path, words, schema, description }: Argument): Evidence[] {
  if (
    !/^(?:action|operation|method|mode|command|op|verb|type|subcommand|state|status)$/.test(
      words.at(-1) ?? '',
    )
  )
    return []
  const isState = /^(?:state|status|type|mode)$/.test(words.at(-1) ?? '')
  const values: readonly unknown[] = Array.isArray(schema.enum)
    ? schema.enum
    : isState
      ? []
      : listed(description)
  return values.flatMap((value) => {
    if (typeof value !== 'string' || isState) return []
    const [worst] = nameEvidence(value, '').toSorted((one, other) => rank(other) - rank(one))
    if (!worst || worst.effect === 'read') return []
    return [
      { ...worst, text: `${name} can be "${value}"`, when: { argument: name, path, is: 'value', value } },
    ]
  })
}

/** Values that a description lists in quotes. */
function listed(description: string): string[] {
  return [...description.matchAll(/['"`]([a-z][a-z_-]{2,30})['"`]/g)].flatMap(([, value]) => value ?? [])
}

function rank({ effect }: Evidence): number {
  return ['read', 'write', 'destructive', 'execute'].indexOf(effect)
}

const worsening =
  /^(?:force|forced|overwrite|overwrite existing|recursive|cascade|purge|hard|hard delete|permanent|permanently|delete|delete existing|replace|replace all|replace existing|clear|clear existing|wipe|destroy|prune|truncate|delete source|delete branch|remove source|drop|ignore errors none)$/

/** Switches that discard something, even of a tool that otherwise only reads. */
const discarding = /^(?:reset|purge|wipe|destroy|prune|delete|hard delete|overwrite existing)(?: \w+)?$/
/** Switches that publish something or notify people. */
const publishing =
  /^(?:(?:is )?public|external|publish|make public|anonymous access|(?:send|notify)(?: (?:email|emails|notification|notifications|invite|invites|users|people|attendees|customer))?)$/

/**
 * A switch that makes a call worse. Switches of read-only tools affect how they read, unless they discard something.
 */
function switchEvidence({ name, path, words, schema }: Argument, about: About): Evidence[] {
  if (schema.type !== 'boolean') return []
  const label = words.join(' ')
  if (about.isActing && publishing.test(label))
    return [
      {
        effect: 'destructive',
        text: `${name} makes it public, or notifies people`,
        when: { argument: name, path, is: 'given' },
      },
    ]
  if (!discarding.test(label) && !(about.isActing && worsening.test(label))) return []
  return [
    { effect: 'destructive', text: `${name} makes it worse`, when: { argument: name, path, is: 'given' } },
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

/** A path and contents: a file is written as a whole, and its previous contents are lost. */
function wholeFileEvidence(all: readonly Argument[], { isActing, isAdding, text }: About): Evidence[] {
  const path = all.find(({ words }) =>
    /^(?:path|file path|filepath|filename|file name|file)$/.test(words.join(' ')),
  )
  const content = all.find(({ words }) =>
    /^(?:content|contents|data|text|file content|file contents|body)$/.test(words.join(' ')),
  )
  if (!path || !content || !isActing || isAdding || !/\bfile\b|\bnote\b|\bdocument\b/i.test(text)) return []
  return [
    {
      effect: 'destructive',
      text: `${path.name} and ${content.name} replace a file as a whole`,
      isSoft: true,
    },
  ]
}

/** Arbitrary requests to arbitrary addresses. */
function requestEvidence(all: readonly Argument[], { text }: About): Evidence[] {
  const url = all.find(({ words }) => /^(?:url|uri|endpoint|path)$/.test(words.join(' ')))
  const method = all.find(({ words }) => /^(?:method|http method|verb)$/.test(words.join(' ')))
  if (!url || !method || !/\bhttp|\brequest|\bapi\b/i.test(`${text} ${method.description}`)) return []
  return [
    {
      effect: 'execute',
      text: `${url.name} and ${method.name} allow any request`,
      ...(!method.isRequired && { when: { argument: method.name, path: method.path, is: 'given' } }),
    },
  ]
}

const selectors = /^(?:filter|filters|where|where clause|selector|conditions?|criteria|match|query)$/

const changing = new Set(
  'archive assign change disable edit enable label mark modify move patch set tag update'.split(' '),
)

/** A selector: one call changes everything that matches it. */
function bulkEvidence(all: readonly Argument[], { verbs }: About): Evidence[] {
  const selector = all.find(
    ({ words, schema }) => selectors.test(words.join(' ')) && schema.type !== 'boolean',
  )
  if (!selector || !verbs.some((verb) => changing.has(verb))) return []
  return [
    {
      effect: 'destructive',
      text: `${selector.name} selects what is changed, which may be all`,
      isSoft: true,
    },
  ]
}

/** Moving or renaming onto a target: what exists there may be replaced. */
function targetEvidence(all: readonly Argument[], { verbs }: About): Evidence[] {
  if (!verbs.some((verb) => verb === 'rename' || verb === 'move')) return []
  const target = all.find(({ words }) =>
    /^(?:destination|dest|new path|new key|target path|destination path|new file path)$/.test(
      words.join(' '),
    ),
  )
  return target
    ? [{ effect: 'destructive', isSoft: true, text: `an existing object at ${target.name} may be replaced` }]
    : []
}

/** A key and its complete value: the previous value of the key is replaced. */
function valueEvidence(all: readonly Argument[], { verbs }: About): Evidence[] {
  if (!verbs.some((verb) => verb === 'set' || verb === 'put')) return []
  const key = all.find(({ words }) => /^(?:key|name|variable|path)$/.test(words.join(' ')))
  const value = all.find(({ words }) => /^(?:value|new value)$/.test(words.join(' ')))
  return key && value
    ? [{ effect: 'destructive', isSoft: true, text: `${value.name} replaces what ${key.name} held` }]
    : []
}

/** Something is forwarded to an address from then on. */
function forwardingEvidence(all: readonly Argument[], { isActing }: About): Evidence[] {
  const address = all.find(({ words }) =>
    /^(?:forward|forward to|redirect to|forwarding address)$/.test(words.join(' ')),
  )
  return address && isActing
    ? [
        {
          effect: 'destructive',
          text: `${address.name} sends things to an address`,
          ...(!address.isRequired && { when: { argument: address.name, path: address.path, is: 'given' } }),
        },
      ]
    : []
}

/** Whether any of the words is a verb of one of the classes. */
export function hasVerb(words: readonly string[], kinds: readonly string[]): boolean {
  return words.some((word) => {
    const verb = baseVerb(word)
    return verb !== undefined && kinds.includes(verbClass(verb) ?? '')
  })
}
