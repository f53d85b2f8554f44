/**
 * Classifies the arguments of a tool by their names. A compensating call must affect only what the original call
 * created or changed, so each of its arguments is classified: it identifies the object, selects objects, widens the
 * scope, or only controls how the call is executed. Invariant: an argument that is in none of these lists counts as
 * selecting.
 */
import { asObject } from '../json/json.ts'
import { type Field, fieldsOf, type ToolShape } from './tool-shape.ts'
import { wordSet, isSameNoun } from '../text/words.ts'

/** Whether an argument only controls how a call is executed or reported: omitting it affects no other object. */
export function isAuxiliary({ words }: Field): boolean {
  return words.length > 0 && words.every((word) => auxiliaryWords.has(word))
}

const auxiliaryWords = wordSet(
  'message comment reason note description notify notification notifications encoding timeout verbose pretty',
  'format output commit author committer locale language lang timezone user agent ms seconds sec',
)

/**
 * Whether an optional argument with value `true` affects more, or more strongly: `force`, `recursive`, `allNamespaces`.
 */
export function isWidening({ words, schema }: Field): boolean {
  return isBoolean(schema) && words.some((word) => widening.has(word))
}

const widening = wordSet(
  'all any every everything force forced recursive recursively recurse cascade cascading permanent permanently',
  'hard purge prune wipe overwrite replace include drop delete remove children descendants subtree ignore',
)

/** Whether an argument includes the content of a container: `recursive`, `cascade`. */
export function isDeep({ words, schema }: Field): boolean {
  return isBoolean(schema) && words.some((word) => deep.has(word))
}

const deep = wordSet('recursive recursively recurse cascade cascading children descendants subtree')

/** Whether an argument requests a dry run: `dryRun`, `validate_only`. */
export function isTrial({ words, schema }: Pick<Field, 'words' | 'schema'>): boolean {
  return trials.has(words.join('')) && isBoolean(schema)
}

/** Whether a call is a dry run according to the tool's schema. */
export function isTrialCall(definition: Readonly<Record<string, unknown>>, args: unknown): boolean {
  const given = asObject(args)
  return trialFieldsOf(definition).some(({ name, schema }) => {
    const value = Object.hasOwn(given, name) ? given[name] : schema.default
    return value === true
  })
}

function trialFieldsOf(definition: Readonly<Record<string, unknown>>): readonly Field[] {
  const known = trialFields.get(definition)
  if (known) return known
  const found = (fieldsOf(definition.inputSchema) ?? []).filter(isTrial)
  trialFields.set(definition, found)
  return found
}

/** By the definition of the tool, since each call asks. */
const trialFields = new WeakMap<object, readonly Field[]>()

const trials = wordSet('dryrun dry simulate simulation validateonly checkonly whatif noop previewonly')

/** Whether an argument lets a call overwrite existing objects: then more is lost than was created. */
export function isReplacing({ words, schema }: Field): boolean {
  return isBoolean(schema) && words.some((word) => replacing.has(word))
}

const replacing = wordSet('force overwrite replace upsert clobber drop truncate merge')

/** Whether an argument selects objects by their properties, however many match. */
export function isFilter({ words }: Field): boolean {
  return words.some((word) => filters.has(word))
}

const filters = wordSet(
  'filter filters where query condition conditions criteria criterion selector selectors match matching predicate',
  'search expression pattern glob regex',
)

/** Whether an argument has the name of an identifier: `id`, `issue_key`, `names`. */
export function isIdentity({ words }: Pick<Field, 'words'>): boolean {
  const last = words.at(-1)
  return (
    last !== undefined && (identities.has(last) || (last.endsWith('s') && identities.has(last.slice(0, -1))))
  )
}

const identities = wordSet('id key number uuid guid iid identifier arn slug handle ref')

/** Whether an argument has the name of a globally unique identifier. */
export function isGlobalId({ words }: Field): boolean {
  return globalIds.has(words.at(-1) ?? '')
}

const globalIds = wordSet('id ids uuid uuids guid guids arn arns identifier identifiers')

/** Whether an argument identifies an object of the noun, by identifier, name or location. */
export function names(field: Field, noun: string | undefined): boolean {
  const { words } = field
  if (isIdentity(field)) return words.slice(0, -1).every((word) => isNoun(word, noun))
  if (words.length > 0 && words.every((word) => isNoun(word, noun))) return true
  const last = words.at(-1) ?? ''
  const about = words.slice(0, -1)
  if (isSameNoun(last, 'name')) return about.every((word) => isNoun(word, noun))
  if (!locators.has(last) && !locators.has(words.join(''))) return false
  return about.length > 0 && about.every((word) => isNoun(word, noun)) ? true : placed.has(noun ?? '')
}

function isNoun(word: string, noun: string | undefined): boolean {
  return noun !== undefined && isSameNoun(word, noun)
}

/** Words for locations, which identify only objects that have a location of their own. */
const locators = wordSet('path filepath filename file uri url location')
const placed = wordSet(
  'file directory folder dir note document doc page object blob asset symlink link bookmark image row',
)

/** Whether an argument names the container of an object, which is part of its identity. */
export function isScope(field: Field): boolean {
  const { words } = field
  const last = words.at(-1) ?? ''
  if (origins.has(words[0] ?? '')) return false
  return isIdentity(field) || isSameNoun(last, 'name') || locators.has(last) || isPlacing(field)
}

/** Whether an argument names a container: `repo`, `project_id`. */
export function isPlacing({ words }: Pick<Field, 'words'>): boolean {
  return words.some((word) => scopes.has(word))
}

const origins = wordSet('from source base template new idempotency request client')
const scopes = wordSet(
  'owner repo repository project workspace namespace space team org organization organisation account database db',
  'schema collection table bucket region cluster zone folder parent channel board list tenant environment env',
  'context connection drive site server host group realm domain profile branch vault catalog dataset stage instance',
)

/** Whether objects of the noun contain others, which may have been added since. */
export function isContainer(noun: string | undefined): boolean {
  return noun !== undefined && [...containers].some((container) => isSameNoun(noun, container))
}

const containers = wordSet(
  'database db table collection schema directory folder dir bucket container project repository repo namespace',
  'workspace team organization organisation group channel board list album playlist calendar vault space site',
  'index cluster topic queue stream stack environment app application server notebook branch category label tag',
  'milestone drive volume share store dataset catalog room thread section graph account user tenant network deployment',
)

/** Words for quantities. */
const quantities = wordSet('many all bulk batch multiple several every each')

/** Whether a tool affects many objects at once: by its name, or because it takes a list of them. */
export function isBulk({ words, inputs = [] }: ToolShape, noun: string | undefined): boolean {
  if (words.some((word) => quantities.has(word))) return true
  return inputs.some((field) => field.schema.type === 'array' && names(field, noun))
}

/** The noun among words, without quantities. */
export function nounOf(words: readonly string[]): string | undefined {
  return words.findLast((word) => !quantities.has(word))
}

function isBoolean({ type, default: usual }: Readonly<Record<string, unknown>>): boolean {
  return type === 'boolean' || (type === undefined && typeof usual === 'boolean')
}
