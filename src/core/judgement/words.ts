/**
 * Evidence from the verbs in names and descriptions of tools.
 *
 * Only imperatives count: verbs at the start of a clause, in their base form or third person. Nouns, participles,
 * negations and references to other tools are no evidence.
 */
import { wordsOf } from '../text/words.ts'
import {
  type Effect,
  type Evidence,
  allOf,
  baseVerb,
  isGoverning,
  isNoun,
  verbClass,
  type VerbClass,
} from './lexicon.ts'

/** The evidence of a tool's name, without the name of its server. */
export function nameEvidence(name: string, server: string): readonly Evidence[] {
  const words = withoutServer(wordsOf(name), wordsOf(server))
  const found = verbsOfName(words)
  return [
    ...found.map((verb): Evidence => ({ ...ofVerb(verb, 'its name says'), isName: true })),
    ...combinations.flatMap(({ verbs, words: objects, evidence }) => {
      const object = words.find((word) => objects.has(word))
      return object !== undefined && found.some((verb) => verbs.has(verb)) ? [evidence(object)] : []
    }),
    ...(isWholeFile(words, found)
      ? [
          {
            effect: 'destructive' as const,
            isSoft: true as const,
            text: 'the previous contents of the file may be lost',
          },
        ]
      : []),
    ...(/\bto (?:file|disk|path)\b/.test(words.join(' '))
      ? [
          {
            effect: 'write' as const,
            text: 'its name says that it writes a file',
            verb: 'write',
            isName: true as const,
          },
        ]
      : []),
  ]
}

/** "create or update file", "write file": the previous contents may be lost. */
function isWholeFile(words: readonly string[], found: readonly string[]): boolean {
  if (!words.includes('file')) return false
  if (found.includes('update')) return found.includes('create')
  return found.some((verb) => verb === 'write' || verb === 'put')
}

/** Verbs that are worse with certain words than alone. */
interface Combination {
  readonly verbs: ReadonlySet<string>
  readonly words: ReadonlySet<string>
  evidence(word: string): Evidence
}

const setOf = (words: string): ReadonlySet<string> => new Set(words.split(' '))

const combinations: readonly Combination[] = [
  {
    // Sent to people when it is posted.
    verbs: setOf('post create submit reply forward publish respond'),
    words: setOf('message messages email mail sms tweet dm invitation invite notification payment'),
    evidence: (word) => ({ effect: 'destructive', text: `a ${word} cannot be undone` }),
  },
  {
    verbs: setOf('forward respond'),
    words: setOf('event events meeting appointment'),
    evidence: () => ({ effect: 'destructive', text: 'it notifies people, which cannot be undone' }),
  },
  {
    // Moves money when it is changed.
    verbs: allOf('write'),
    words: setOf('subscription subscriptions dispute refund charge payout payment billing'),
    evidence: (word) => ({ effect: 'destructive', text: `a change of a ${word} may move money` }),
  },
  {
    verbs: setOf('reset regenerate'),
    words: setOf(
      'password passwords passphrase secret secrets credential credentials mfa key keys token tokens',
    ),
    evidence: (word) => ({ effect: 'destructive', text: `whoever uses the current ${word} is locked out` }),
  },
  {
    verbs: setOf('disable deactivate unset stop'),
    words: setOf(
      'backup backups protection encryption mfa 2fa firewall versioning audit auditing replication failover',
    ),
    evidence: (word) => ({ effect: 'destructive', text: `it switches off the ${word}` }),
  },
]

/** The evidence of a title. */
export function titleEvidence(title: string): readonly Evidence[] {
  const [first = ''] = wordsOf(title)
  return baseVerb(first) === undefined
    ? []
    : verbsOfName(wordsOf(title)).map((verb) => ofVerb(verb, 'its title says'))
}

/** The verb a tool's name begins with, after the name of its server; undefined if it is not a known verb. */
export function leadingVerb(name: string, server: string): string | undefined {
  const [first = ''] = withoutServer(wordsOf(name), wordsOf(server))
  return baseVerb(first)
}

/** The evidence of the first sentences of a description, and the warnings in later ones. */
export function descriptionEvidence(description: string): readonly Evidence[] {
  const sentences = sentencesOf(description)
  const verbs = sentences
    .slice(0, MAX_SENTENCES)
    .flatMap((sentence, at) => (at > 0 && isReference(sentence) ? [] : clauseVerbs(sentence, at === 0)))
  const warned = sentences.flatMap((sentence) => warnings(sentence))
  const unique = new Map(verbs.map((verb) => [verb, ofVerb(verb, 'its description says')]))
  return [...unique.values(), ...warned]
}

/** The number of sentences that are read for verbs: the rest is examples, notes and arguments. */
const MAX_SENTENCES = 2
const MAX_DESCRIPTION_LENGTH = 20_000

const effects: Readonly<Record<VerbClass, Effect>> = {
  read: 'read',
  session: 'write',
  write: 'write',
  soft: 'destructive',
  destructive: 'destructive',
  outward: 'destructive',
  admin: 'destructive',
  execute: 'execute',
}

function ofVerb(verb: string, origin: string): Evidence {
  const kind = verbClass(verb) ?? 'write'
  return {
    effect: effects[kind],
    text: `${origin} "${verb}"${kind === 'outward' ? ', which cannot be undone' : ''}`,
    ...(kind === 'soft' && { isSoft: true }),
    verb,
  }
}

function withoutServer(words: readonly string[], server: readonly string[]): readonly string[] {
  const isPrefixed = words.length > server.length && server.every((word, index) => words[index] === word)
  return isPrefixed ? words.slice(server.length) : words
}

const conjunctions = new Set(['and', 'or', 'then'])

/**
 * The verbs of a name. After a reading verb, words that name what is read do not count, until `and` or `or`. If a name
 * begins with a noun, its first verb counts.
 */
function verbsOfName(words: readonly string[]): string[] {
  const found: string[] = []
  let isObject = false
  words.forEach((word, at) => {
    if (conjunctions.has(word)) isObject = false
    const verb = baseVerb(word)
    if (verb === undefined || (word !== verb && found.length > 0 && !conjunctions.has(words[at - 1] ?? '')))
      return
    // After any verb, a word that can be a noun is its object: "create_release", "get_build_log".
    if (isObject || (found.length > 0 && isNoun(verb) && !conjunctions.has(words[at - 1] ?? ''))) return
    // At the start of a name of several words, a word that can be a noun and governs nothing is a noun: "build_status",
    // "order_list".
    if (found.length === 0 && isNoun(verb) && isHeadOfVerb(words, at)) return
    found.push(verb)
    if (isGoverning(verb)) isObject = true
  })
  return found
}

/** Whether a word that can be a noun precedes the verb of a name: "branch_delete", "order_get". */
function isHeadOfVerb(words: readonly string[], at: number): boolean {
  const rest = words.slice(at + 1)
  const next = rest.find((word) => verbClass(word) !== undefined && !isNoun(word))
  return next !== undefined && rest.at(-1) === next
}

function sentencesOf(description: string): readonly string[] {
  return description
    .slice(0, MAX_DESCRIPTION_LENGTH)
    .split(/(?<=[.!?])\s+|\n+/)
    .map((part) => part.trim())
    .filter((item) => item !== '')
}

/** A sentence about other tools, or about when to use this one. */
function isReference(sentence: string): boolean {
  return /^(?:for |note|see |example|returns?\b|when |if |before |after |prefer|instead|warning|important|args|parameters|requires?\b|this (?:is|requires)|use (?!this|it|to))/i.test(
    sentence,
  )
}

const lead =
  /^(?:\W*)(?:\[[^\]]*\]\s*)?(?:(?:use )?this (?:tool|command|function|operation|endpoint)?\s*(?:will |can be used |is used |lets you |allows you |allows |enables )?(?:to )?|a tool (?:to|that|for) |tool (?:to|that|for) |(?:use|used) (?:this |it )?(?:tool )?to |allows (?:you |users )?to |lets you |can |will |to )?/i

/** The verbs at the start of a sentence and after "and", "or", "then" and commas in its first clause. */
function clauseVerbs(sentence: string, isFirst: boolean): string[] {
  const text = sentence.replaceAll(/`[^`]*`|"[^"]*"|'[^']{2,}'|\([^)]*\)|\b\w+_\w+\b/g, ' ').replace(lead, '')
  const words = text.split(/\s+/).filter((word) => word !== '')
  const leading = verbIn(words[0], true)
  const first = isRunOfReading(leading, words) ? 'query' : leading
  // A sentence that does not begin with a verb contains no imperative.
  if (first === undefined) return isFirst ? laterVerbs(words, 0) : []
  return [first, ...laterVerbs(words, 1)]
}

/** "Run a find query", "execute a search": what runs only reads, and the caller does not write a program. */
function isRunOfReading(verb: string | undefined, words: readonly string[]): boolean {
  if (verb === undefined || verbClass(verb) !== 'execute') return false
  const object = words.slice(1, 8).join(' ')
  const isProgram =
    /\b(?:sql|code|javascript|python|commands?|scripts?|shell|statements?|graphql|mutations?|cypher|arbitrary|raw)\b/i
  return (
    /\b(?:search|query|queries|find|report|audit|analysis|check|scan|lookup|aggregation)\b/i.test(object) &&
    !isProgram.test(object)
  )
}

function laterVerbs(words: readonly string[], from: number): string[] {
  return words.slice(from).flatMap((word, index) => {
    const before = words[from + index - 1] ?? ''
    const twoBefore = words[from + index - 2] ?? ''
    const isJoined = /^(?:and|or|then|and\/or|&)$/i.test(before)
    const isListed = before.endsWith(',') && verbIn(before, false) !== undefined
    if (!(isJoined || isListed) || negations.has(twoBefore.toLowerCase())) return []
    const verb = verbIn(word, false)
    // "projects and releases", "by name and label": a plain noun in a list is not a verb.
    if (verb === undefined || (isNoun(verb) && !isVerbLike(twoBefore))) return []
    return [verb]
  })
}

const negations = new Set(['not', 'never', 'without', 'cannot', "don't", "doesn't"])

function isVerbLike(word: string): boolean {
  return verbIn(word, false) !== undefined
}

function verbIn(word: string | undefined, isLeading: boolean): string | undefined {
  const letters = (word ?? '').toLowerCase().replaceAll(/[^a-z]/g, '')
  const verb = baseVerb(letters)
  // "Config includes …", "roles and members": an administrative term in a sentence is a noun.
  if (verb === undefined || (verbClass(verb) === 'admin' && isNoun(verb))) return undefined
  // "Lists" leads a sentence as a verb; "releases" after "and" is a noun.
  return isLeading || verb === letters || !isNoun(verb) ? verb : undefined
}

const alarms: readonly (readonly [RegExp, Evidence])[] = [
  [
    /\b(?:arbitrary|any|raw|custom|your) (?:\w+ )?(?:sql|code|javascript|python|commands?|scripts?|shell|expressions?)\b|\b(?:execut|evaluat|run)(?:es?|s|ing)? (?:an? |the |any |raw |arbitrary |some |provided |given )*(?:\w+ )?(?:sql|code|javascript|python|commands?|scripts?|shell|expressions?|function in|statements?)\b/i,
    { effect: 'execute', text: 'its description says that it runs what the caller writes' },
  ],
  [
    /\b(?:irreversibl|cannot be undone|can't be undone|permanently (?:delet|remov|eras|destroy))/i,
    { effect: 'destructive', text: 'its description says that this cannot be undone' },
  ],
  [
    /\b(?:completely )?(?:overwrit(?:es?|ing)|replac(?:es|ing)) (?:the |an? |any |all |its )*(?:existing|entire|whole|current|previous|files?|contents?)\b/i,
    { effect: 'destructive', text: 'its description says that it overwrites what is there' },
  ],
  [
    /\b(?:apply|applied|applies|deploy\w*|push\w*|releas\w*|promot\w*|changes?|migrat\w*) [^.]{0,60}\b(?:to|in|on) (?:the )?(?:production|main branch|live (?:site|environment|service))\b/i,
    { effect: 'destructive', text: 'its description says that it changes what is in use' },
  ],
  [
    /\b(?:writes?|saves?|appends?|creates?|generates?|exports?)\b[^.]{0,60}\b(?:files?|reports?|disk|workspace)\b|\b(?:files?|reports?) (?:will be|is|are) (?:appended|written|saved|created|generated)\b/i,
    { effect: 'write', text: 'its description says that it writes files' },
  ],
  [
    /\b(?<!non-)(?:potentially |possibly )?destructive (?:operation|action|change|update|command)s?\b/i,
    { effect: 'destructive', text: 'its description says that it is destructive' },
  ],
  [
    /\b(?:enabl|enter|activat|start)\w* [^.]{0,30}\bmaintenance mode\b|\btak(?:es?|ing) [^.]{0,40}\b(?:offline|out of service)\b|\bcaus(?:es?|ing) [^.]{0,30}\b(?:downtime|an? (?:outage|interruption))\b/i,
    { effect: 'destructive', text: 'its description says that it interrupts a service' },
  ],
  [
    /(?:\bnotif(?:y|ies)|(?:^|\b(?:may|will|can|to|and|or) )(?:alarm|alert|page|email|message)s?) (?:or \w+ )?(?:all |lots of |many |every |the |your |other )*(?:people|users?|members?|team|everyone|subscribers?|customers?|attendees|watchers|recipients|followers)\b/i,
    {
      effect: 'destructive',
      text: 'its description says that it reaches people, which cannot be undone',
    },
  ],
  [
    /\b(?:perform|run|execut)\w* (?:\w+ )?(?:management|administrative|admin|control) (?:operations?|commands?)\b/i,
    { effect: 'execute', text: 'its description says that it runs what the caller writes' },
  ],
  [
    /^(?:\w+ )?(?:renam|replac|chang|updat|modif|edit|mov|set|tag|label)\w* [^.]{0,60}\b(?:throughout|across) (?:the |an? |your |all )*(?:entire |whole )?(?:vault|project|workspace|repository|codebase|files?|notes?|documents?|site|database|account|organi[sz]ation)\b/i,
    { effect: 'destructive', isSoft: true, text: 'its description says that it changes many things at once' },
  ],
  [
    /\bconsumer groups?\b|\bmarks? [^.]{0,40}\bas (?:read|seen)\b/i,
    { effect: 'write', text: 'its description says that it marks what it reads as read' },
  ],
]

/** The warnings in any sentence of a description. */
function warnings(sentence: string): Evidence[] {
  const isNegated =
    /\b(?:does not|doesn't|do not|don't|will not|won't|never|cannot|without|instead of)\b/i.test(sentence)
  const isOther = /\buse (?:the )?`?\w+`? (?:tool )?(?:instead|to|for)\b|\binstead\b/i.test(sentence)
  if (isOther) return []
  return alarms.flatMap(([pattern, evidence], at) => {
    const isAlarm = pattern.test(sentence)
    // "cannot be undone" does not negate the warning.
    return isAlarm && (at === 1 || !isNegated) ? [evidence] : []
  })
}
