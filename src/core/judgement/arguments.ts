/**
 * Evidence from the arguments of a tool: languages it runs, selectors for many things at once, files it writes. Evidence
 * of an optional argument applies to the calls that use it.
 */
import type { Evidence } from './evidence.ts'
import { baseVerb, verbClass } from './lexicon.ts'
import { type Argument, argumentsOf, isOuter } from './members.ts'

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
  /** Its name and the first clause of its description say that it reads. */
  readonly isPlainRead: boolean
}

/** The evidence of a tool's arguments, without that of switches and choices. */
export function argumentEvidence(given: readonly Argument[], about: About): readonly Evidence[] {
  const all = given.filter(isOuter)
  return [
    ...all.flatMap((item) => languageEvidence(item, about, isLanguageChosen(all))),
    ...all.flatMap((item) => fileEvidence(item, about)),
    ...wholeFileEvidence(all, about),
    ...bulkEvidence(all, about),
    ...targetEvidence(all, about),
    ...valueEvidence(all, about),
    ...forwardingEvidence(all, about),
    ...postEvidence(all, about),
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

/** A topic or thread with a text: it is published. A topic of a queue has none. */
function postEvidence(all: readonly Argument[], { verbs, text, isActing }: About): Evidence[] {
  const content = all.find(({ words }) =>
    /^(?:raw|content|contents|body|text|message|markdown)$/.test(words.join(' ')),
  )
  if (!content || !isActing || !verbs.some((verb) => verb === 'create' || verb === 'post' || verb === 'add'))
    return []
  return /\b(?:topic|thread|discussion|post|forum)\b/i.test(text.slice(0, 120)) &&
    !/\bdraft|comment/i.test(text.slice(0, 120))
    ? [{ effect: 'destructive', text: `${content.name} is published` }]
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
