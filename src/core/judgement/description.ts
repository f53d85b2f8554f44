/**
 * Evidence from descriptions of tools. The main verb of the first clause says what a tool does; verbs that are joined to
 * it, and those of further sentences, say what it does besides. Only imperatives and the third person count: nouns,
 * participles, negations and references to other tools are no evidence.
 */
import type { Evidence } from './evidence.ts'
import { baseVerb, inContext, isNoun, isVague, verbClass, verbOfAction, withPhrases } from './lexicon.ts'
import { objectEvidence } from './objects.ts'
import { ofVerb } from './words.ts'
import { wordSet } from '../text/words.ts'

/** A description, and what its first clause says that the tool does. */
export interface Description {
  /** The verb of the first clause, or `unknown` (a verb that is not known), `vague` ("manages"), or `question` and `thing` ("Whether …", "Members of …"). */
  readonly main: { readonly verb: string } | 'vague' | 'question' | 'thing' | 'unknown' | undefined
  readonly evidence: readonly Evidence[]
  /** The imperatives of its second sentence, which can be about the caller. */
  readonly second: readonly Evidence[]
  /** What any of its sentences warns of. */
  readonly warnings: readonly Evidence[]
}

/** The number of sentences whose imperatives count: the rest is examples, notes and arguments. */
const MAX_SENTENCES = 2
/** The number of sentences that are read for what the tool does besides. */
const MAX_FURTHER = 30
const MAX_DESCRIPTION_LENGTH = 20_000

/** Reads a description. */
export function readDescription(description: string): Description {
  const sentences = sentencesOf(description).map(withoutMessages)
  const clause = clauseOf(sentences[0] ?? '')
  const main = mainOf(clause)
  const second = sentences.slice(1, MAX_SENTENCES).filter((sentence) => !isReference(sentence))
  const nouns = main === 'vague' || main === undefined || main === 'unknown' ? actionsIn(clause) : []
  const further = sentences.slice(1, MAX_FURTHER).flatMap((sentence) => besides(sentence))
  const said = (verbs: readonly string[]): readonly Evidence[] =>
    [...new Set(verbs)].map((verb) => ofVerb(verb, 'its description says'))
  return {
    main,
    evidence: [...said([...clauseVerbs(clause, true), ...nouns, ...further]), ...objectsIn(clause)],
    second: said(second.flatMap((sentence) => clauseVerbs(clauseOf(sentence), false))),
    warnings: sentences.flatMap((sentence) => warningsIn(sentence)),
  }
}

function sentencesOf(description: string): readonly string[] {
  return description
    .slice(0, MAX_DESCRIPTION_LENGTH)
    .split(/(?<=[.!?])\s+|\n+/)
    .map((part) => part.trim())
    .filter((item) => /[a-z]/i.test(item))
}

/**
 * What servers say of the MCP messages of a call, which change nothing else: progress, log messages, cancellation, its
 * stream, notifications by their methods, errors of the protocol. Messages to people, and bookings, are none of these.
 */
const ofMessages =
  /^\W*(?:it |this tool |an? tool that )?(?:also |always )?(?:(?:emit|report|stream)s? (?:\w+ ){0,3}(?:progress|log notification|progress notification)s?(?: \+ .*| per \w+|)\W*$|(?:announce|notif(?:y|ie)|send|emit|publish)s? .*\bnotifications\/(?:tools|resources|prompts|roots|progress|message|cancelled|tasks|elicitation)\b|(?:observe|support|honou?r)s? cancellation\W*$|closes? (?:\S+ ){0,3}sse stream\b|(?:reject|refuse|fail)s? .*\bat the protocol level\b)/i

/** A sentence without its clauses about the messages of the call itself. If it has no others, the tool only returns. */
function withoutMessages(sentence: string): string {
  const clauses = sentence.split(/[;,]?\s(?:and|then)\s|[;,]\s/)
  const others = clauses.filter((clause) => !ofMessages.test(clause))
  if (others.length === clauses.length) return sentence
  return others.join(', ') || 'Returns'
}

/** A sentence about other tools, or about when to use this one. */
function isReference(sentence: string): boolean {
  return (
    /^(?:\W*)(?:for |note|see |example|returns?\b|when |if |before |after |prefer|instead|warning|important|args|parameters|requires?\b|accepts?\b|takes\b|supports?\b|e\.g|this (?:is|requires)|use (?!this|it|to)|call |tip|do not|don't|never|always|must)/i.test(
      sentence,
    ) || /\b(?:parameters?|arguments?)\b/i.test(sentence)
  )
}

const lead =
  /^(?:\W*)(?:\[[^\]]*\]\s*)?(?:(?:please |safely |automatically |quickly |directly |permanently |immediately |securely |asynchronously |optionally |simply |easily )+)?(?:(?:use )?this (?:mcp )?(?:tool|command|function|operation|endpoint|api|action|method)?\s*(?:will |can be used |is used |should be used |(?:lets|allows|enables) (?:you|users|the user|agents?|clients?|models?|one|callers?) (?:to )?|allows you |allows |enables you |enables )?(?:to )?|(?:an? |the )?(?:tool|function|command|api|utility|method) (?:to|that|for|which|used to) |(?:use|used) (?:this |it )?(?:tool )?(?:to|for) |(?:allows|enables|lets|permits) (?:you |users |the user |agents? |clients? |models? |callers? )?(?:to )?|(?:can|will) (?:be used to )?|for |to )?(?:(?:safely|automatically|quickly|directly|permanently|immediately|securely|asynchronously) )*/i

/** What some servers write before a description: "DANGER: ". */
const label = /^\W*[A-Z][A-Z ]+:\s*/

/** A sentence without quotations, asides and introductory words; its words keep their marks. */
function clauseOf(sentence: string): readonly string[] {
  const text = sentence
    .replaceAll(/`[^`]*`|"[^"]*"|'[^']{2,}'|\([^)]*\)|\b\w+_\w+\b/g, ' ')
    .replace(label, '')
    .replace(lead, '')
  return withPhrases(text.split(/[\s/]+/).filter((word) => /\w/.test(word)))
}

function lettersOf(word: string | undefined): string {
  return (word ?? '').toLowerCase().replaceAll(/[^a-z]/g, '')
}

const determiners = wordSet('a an the all any your its this these those one some every each two my our')
const asking = wordSet('whether is are does do has have can which what who how when where why')

function mainOf(words: readonly string[]): Description['main'] {
  const first = lettersOf(words[0])
  if (first === '') return undefined
  const verb = verbIn(words[0], true)
  if (verb !== undefined && !isThing(words))
    return { verb: isRunOfReading(verb, words) ? 'query' : inContext(verb, words.slice(1, 8).map(lettersOf)) }
  if (isVague(first)) return isReadable(words.slice(1)) ? 'thing' : 'vague'
  const doing = first.endsWith('ing') ? verbOfAction(first) : undefined
  if (doing !== undefined) return { verb: doing }
  if (asking.has(first)) return 'question'
  // "Frobnicates a record": a verb that is not known.
  if (determiners.has(lettersOf(words[1])) && !determiners.has(first) && !prepositions.has(first))
    return 'unknown'
  return isReadable(words) && isNominal(words) ? 'thing' : undefined
}

/** "Release notes between two tags", "Balance of an address": a noun that can be a verb begins a noun phrase. */
function isThing(words: readonly string[]): boolean {
  const first = lettersOf(words[0])
  const verb = baseVerb(first)
  if (verb === undefined || !isNoun(verb)) return false
  const second = lettersOf(words[1])
  return (second === 'of' || readable.has(second)) && !determiners.has(second) && isReadable(words)
}

const prepositions = wordSet(
  'of for in about between from on at to by with without that which who whose as and or into via per after before over across using',
)

/** Whether a noun phrase names what can be read: its last noun, before a preposition, is known as such. */
function isReadable(words: readonly string[]): boolean {
  const plain = words.map(lettersOf)
  const at = plain.findIndex((word, index) => index > 0 && prepositions.has(word))
  const phrase = plain.slice(0, at === -1 ? plain.length : at)
  const head = phrase.at(-1) ?? ''
  const isActing = plain.slice(0, at === -1 ? 8 : at + 4).some((word) => {
    const verb = verbOfAction(word)
    return verb !== undefined && verbClass(verb) !== 'read' && !word.endsWith('ing')
  })
  return readable.has(head) && !isActing
}

/** Whether a word is a noun of what can be read. */
export function isReadableWord(word: string): boolean {
  return readable.has(word)
}

/** Whether a noun phrase begins with a noun or adjective that is known, and not with what may be a verb. */
function isNominal(words: readonly string[]): boolean {
  const first = lettersOf(words[0])
  const [given = ''] = words
  if (/^[A-Z]{2,}/.test(given) || /['’]s$/.test(given) || determiners.has(first)) return true
  return readable.has(first) || readable.has(`${first}s`) || adjectives.test(first)
}

const adjectives =
  /^(?:current|recent|latest|last|unread|full|complete|detailed|historical|available|daily|weekly|monthly|hourly|annual|live|upcoming|open|active|basic|general|quick|brief|short|top|trending|popular|local|global|public|random|raw|realtime|real|new|old|past|present|next|previous|possible|related|similar|nearby|key|main|common|company|stock|crypto|server|system|user|technical|financial|academic|official|interactive|structured|\w+(?:al|ic|ical|ary))$/

/** Nouns of what can be read. */
const readable: ReadonlySet<string> = wordSet(`
    access address addresses advice alerts analysis analytics answer answers area areas article articles availability
    balance balances calendar candles capabilities catalog chart charts columns comments commits comparison
    configuration content contents context coordinates cost costs count counts credits data date dates definition
    definitions dependencies description details diff difference differences direction directions distance distances
    docs documentation documents elevation entries entry errors estimate events evidence examples facts feed files
    forecast forecasts frame frames guidance guide guidelines headlines health help history holdings image images
    indexes info information insights instructions inventory issues items keywords leaderboard list lists location
    locations log logs lyrics map maps market meaning members messages metadata metrics name names news notes number
    numbers options orders outline overview page pages parameters performance places plan podcast population
    position positions posts preview price prices pricing profile profiles properties quote quotes ranking rankings
    rate rates rating ratings reasons recipe recipes recommendations record records reference references report
    reports requirements result results reviews revision revisions route routes rows rules schedule schema schemas
    score scores snapshot snippets source sources specification specifications standings state statement statements
    states statistics stats status statuses structure suggestions summaries summary symbols synonyms tags temperature
    text ticker time timeline times titles topics trades traffic transcript transcripts transactions translation tree
    trends type types usage users value values version versions video videos volume weather words
`)

/** The verbs of a clause: the first word, and those after "and", "or", "then" and commas. */
function clauseVerbs(words: readonly string[], isFirst: boolean): string[] {
  const main = mainOf(words)
  if (main === 'vague' || main === 'thing' || main === 'question') return isFirst ? laterVerbs(words, 1) : []
  // A sentence that does not begin with a verb contains no imperative.
  if (main === undefined || main === 'unknown') return isFirst ? laterVerbs(words, 0) : []
  return [main.verb, ...laterVerbs(words, 1)]
}

/** "Run a find query", "execute a search": what runs only reads, and the caller does not write a program. */
function isRunOfReading(verb: string, words: readonly string[]): boolean {
  if (verbClass(verb) !== 'execute') return false
  const isEvaluation = verb === 'evaluate'
  const object = words.slice(1, 8).join(' ')
  const isProgram =
    /\b(?:sql|code|javascript|python|commands?|scripts?|shell|statements?|graphql|mutations?|cypher|arbitrary|raw|functions?)\b/i
  if (isEvaluation)
    return (
      !isProgram.test(object) &&
      !/\bexpressions?\b/i.test(object.replace(/\b(?:math|arithm|numer)\w* expressions?/gi, ''))
    )
  return (
    /\b(?:search|query|queries|find|report|audit|analysis|check|scan|lookup|aggregation|promql|logql|mathematical|arithmetic|formula|flag|condition|similarity|diagnostics?|health|lint|linter)\b/i.test(
      object,
    ) && !isProgram.test(object)
  )
}

function laterVerbs(words: readonly string[], from: number): string[] {
  return words.slice(from).flatMap((word, index) => {
    const before = words[from + index - 1] ?? ''
    const twoBefore = words[from + index - 2] ?? ''
    const isJoined = /^(?:and|or|then|and\/or|&)$/i.test(before)
    const isListed = before.endsWith(',') && isVerbLike(before)
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
  const letters = lettersOf(word)
  const verb = baseVerb(letters)
  // "Config includes …", "roles and members": an administrative term in a sentence is a noun.
  if (verb === undefined || (verbClass(verb) === 'admin' && isNoun(verb))) return undefined
  // "Lists" leads a sentence as a verb; "releases" after "and" is a noun.
  return isLeading || verb === letters || !isNoun(verb) ? verb : undefined
}

/** The actions that a vague clause names: "provides create, update and delete of", "handles deletion of". */
function actionsIn(words: readonly string[]): string[] {
  return words.slice(0, 16).flatMap((word, at) => {
    const letters = lettersOf(word)
    const action = verbOfAction(letters)
    if (action !== undefined) return [action]
    const verb = verbIn(word, false)
    if (verb === undefined || at === 0) return []
    return isNoun(verb) || verbClass(verb) === 'read' ? [] : [verb]
  })
}

/** What a further sentence says that the tool does besides: "It also deletes …", "Automatically removes …". */
function besides(sentence: string): string[] {
  const [, before = '', word = ''] =
    /^\W*((?:(?:it|this(?: tool| command| action| operation)?|also|then|and|automatically|permanently|immediately|will|otherwise|which)\s+)*)(\w+)/i.exec(
      sentence,
    ) ?? []
  const written = word.toLowerCase()
  const verb = baseVerb(written)
  // The third person is about the tool; an imperative tells the caller what to do.
  if (verb === undefined || (verb === written && !/\bwill\b/i.test(before))) return []
  const isPlural = isNoun(verb) && before === ''
  return isPlural || !isDangerous(verb) ? [] : [verb]
}

function isDangerous(verb: string): boolean {
  const kind = verbClass(verb)
  return kind === 'destructive' || kind === 'outward' || kind === 'execute'
}

/** The first verb of a clause with what it governs: "Change the role of a member". */
function objectsIn(words: readonly string[]): readonly Evidence[] {
  const main = mainOf(words)
  if (typeof main !== 'object') return []
  const plain = words.map(lettersOf)
  const end = words.findIndex((word, at) => at > 0 && (/[,;:.]$/.test(word) || stops.has(lettersOf(word))))
  const clause = plain.slice(1, end === -1 ? 12 : Math.min(end + (stops.has(plain[end] ?? '') ? 0 : 1), 12))
  return objectEvidence([main.verb, ...laterVerbs(words.slice(0, 6), 1)], clause)
}

const stops = wordSet(
  'from by with without that which who whose as using via when if where based so such including for on at through about',
)

const alarms: readonly (readonly [pattern: RegExp, evidence: Evidence, isAlways?: true])[] = [
  [
    /\b(?:arbitrary|any|raw|custom|your) (?:\w+ )?(?:sql|code|javascript|python|commands?|scripts?|shell|expressions?)\b|\b(?:execut|evaluat|run)(?:es?|s|ing)? (?:an? |the |any |raw |arbitrary |some |provided |given )*(?!math|arithm|cron|bool|numer)(?:\w+ )?(?:sql|code|javascript|python|commands?|scripts?|shell|expressions?|function in|statements?)\b/i,
    { effect: 'execute', text: 'its description says that it runs what the caller writes' },
  ],
  [
    /\b(?:irreversibl|cannot be undone|can't be undone|cannot be reversed|permanently (?:delet|remov|eras|destroy))/i,
    { effect: 'destructive', text: 'its description says that this cannot be undone' },
    true,
  ],
  [
    /\b(?:completely )?(?:overwrit(?:es?|ing)|replac(?:es|ing)) (?:the |an? |any |all |its )*(?:existing|entire|whole|current|previous|files?|contents?)\b/i,
    { effect: 'destructive', text: 'its description says that it overwrites what is there' },
  ],
  [
    /\b(?:apply|applied|applies|deploy\w*|push\w*|releas\w*|promot\w*|changes?|migrat\w*|turns?|enabl\w*|switch\w*) [^.]{0,60}\b(?:to|in|on) (?:the )?(?:production|main branch|live (?:site|environment|service))\b/i,
    { effect: 'destructive', isOfActs: true, text: 'its description says that it changes what is in use' },
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
    /(?:\bnotif(?:y|ies)|(?:^|\b(?:may|will|can|to|and|or) )(?:alarm|alert|page|email|message)s?|\bpages) (?:or \w+ )?(?:all |lots of |many |every |the |your |other )*(?:people|users?|members?|team|everyone|subscribers?|customers?|attendees|watchers|recipients|followers|on-?call|responders?|engineers?)\b|\binvit(?:es?|ing) [^.]{0,30}\b(?:attendees|people|guests|participants|users?)\b/i,
    {
      effect: 'destructive',
      isOfActs: true,
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
    /\bbill(?:ed|able|s you)\b|\bincurs? (?:\w+ ){0,2}(?:costs?|charges?|fees?)\b|\b(?:will|may|can) (?:be charged|incur|charge|cost)\b|\bcosts? (?:real )?(?:money|credits)\b|\bcharg(?:es|ing) (?:the |your |a |an )\b|\breal money\b/i,
    { effect: 'destructive', isOfActs: true, text: 'its description says that it costs money' },
  ],
  [
    /\b(?:publicly|public) (?:visible|available|accessible)\b|\bmakes? [^.]{0,40}\bpublic\b|\bvisible to (?:everyone|anyone|all|the public)\b/i,
    { effect: 'destructive', isOfActs: true, text: 'its description says that it makes something public' },
  ],
  [
    /,? (?:or|and) (?:replac|overwrit)es? (?:those|it|them|what|any|the|an|if)\b|\bdropping (?:the |all |any |what )|\bupdates? all (?:documents|records|rows|items|entries)\b/i,
    { effect: 'destructive', text: 'its description says that it replaces what is there' },
  ],
  [
    /\bload(?:s|ing)? [^.]{0,60}\binto (?:an? |the |your )?(?:table|database|collection|index|store|warehouse|dataset|cluster|db|bucket|graph)|\b(?:gets?|receives?|polls?|pulls?|pops?|consumes?|reads?) [^.]{0,30}\bmessages? (?:off|from) (?:an? |the |your )?\w*queue/i,
    { effect: 'write', text: 'its description says that it takes something in or out' },
  ],
  [
    /\bconsumer groups?\b|\bmarks? [^.]{0,40}\bas (?:read|seen)\b/i,
    { effect: 'write', text: 'its description says that it marks what it reads as read' },
  ],
]

/** The warnings in any sentence of a description. */
function warningsIn(sentence: string): Evidence[] {
  const isNegated =
    /\b(?:does not|doesn't|do not|don't|will not|won't|never|cannot|without|instead of|no longer)\b/i.test(
      sentence,
    )
  const isOther = /\buse (?:the )?`?\w+`? (?:tool )?(?:instead|to|for)\b|\binstead\b/i.test(sentence)
  if (isOther) return []
  return alarms.flatMap(([pattern, evidence, isAlways]) =>
    // "cannot be undone" does not negate the warning.
    pattern.test(sentence) && (isAlways === true || !isNegated) ? [evidence] : [],
  )
}
