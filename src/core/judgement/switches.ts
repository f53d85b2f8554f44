/** Evidence from switches and values of arguments that make a call worse, or let it change nothing. */
import { isObject } from '../json/json.ts'
import type { Condition, Evidence } from './evidence.ts'
import { baseVerb, isNoun, verbClass } from './lexicon.ts'
import { type Argument, isOuter } from './members.ts'

interface Acting {
  /** A verb shows that the tool does more than read. */
  readonly isActing: boolean
  /** A verb shows that it changes what exists. */
  readonly isChanging: boolean
}

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
    ...valueEvidence(argument, acting),
    ...peopleEvidence(argument, acting),
    ...keyEvidence(argument, acting),
    ...secretEvidence(argument, acting),
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

/** Evidence of the calls that have an argument: of all of them if it is required, which `more` is about. */
function whereGiven(
  { name, path, isRequired, schema }: Argument,
  text: string,
  more: Pick<Evidence, 'isSoft'> = {},
): Evidence {
  if (isRequired) return { effect: 'destructive', text, ...more }
  return { effect: 'destructive', text, when: { argument: name, path, is: 'given', ...fallbackOf(schema) } }
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

function valueEvidence({ name, path, words, schema, values }: Argument, { isActing }: Acting): Evidence[] {
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

/** People who are told of what is created. */
function peopleEvidence(argument: Argument, { isActing }: Acting): Evidence[] {
  const { name, path, words } = argument
  if (!isActing || path.includes('*')) return []
  if (!/^(?:attendees|invitees|attendee emails|guests|guest emails|invite emails)$/.test(words.join(' ')))
    return []
  return [whereGiven(argument, `${name} are invited`, { isSoft: true })]
}

/** A key that signs: what is signed binds the owner of the key. */
function keyEvidence(argument: Argument, { isActing }: Acting): Evidence[] {
  const { name, words } = argument
  if (
    !isActing ||
    !/^(?:(?:wallet|signer|sender|from|owner) )?(?:private key|mnemonic|seed phrase|secret key|keypair)$/.test(
      words.join(' '),
    )
  )
    return []
  return [whereGiven(argument, `${name} signs what is done`)]
}

/** A secret or rights that a change replaces. */
function secretEvidence(argument: Argument, { isChanging }: Acting): Evidence[] {
  const { name, path, words } = argument
  const label = words.join(' ')
  if (
    !isChanging ||
    path.includes('*') ||
    !/(?:^| )(?:password|secret|passphrase|role|roles|permissions|privileges|acl|scopes|groups|users|members|collaborators|owners|admins|principals|grants)$/.test(
      label,
    )
  )
    return []
  return [whereGiven(argument, `${name} replaces a secret or rights`, { isSoft: true })]
}
