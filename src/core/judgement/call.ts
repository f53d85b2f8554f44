/** The effect of one call of a judged tool: a tool is listed with its worst effect, a call is treated by its arguments. */
import type { Classification, Descriptor, Operation, Risk } from '../descriptor.ts'
import { isObject } from '../json/json.ts'
import type { Payload } from '../payload.ts'
import { type Choice, type Condition, type Effect, type Variation, worse, worst } from './evidence.ts'
import { verbClass } from './lexicon.ts'

/** The descriptor of a tool with the classification of one call's arguments. */
export function asCalled(entry: Descriptor, { params }: { readonly params: Payload }): Descriptor {
  const { varies } = entry.classification
  if (!varies) return entry
  const effect = effectOfCall(varies, params.fields.arguments ?? {})
  return { ...entry, classification: natureOf(effect, entry.classification) }
}

/** The descriptor of a tool with the classification of its most harmless call. */
export function atLeast(entry: Descriptor): Descriptor {
  const { varies } = entry.classification
  if (!varies) return entry
  const { baseEffect, choice, dryRun } = varies
  const chosen = choice ? [...Object.values(choice.effects), choice.missing] : []
  const effect = (['read', 'write', 'destructive', 'execute'] as const).find(
    (each) => chosen.length === 0 || chosen.includes(each),
  )
  const least = dryRun === undefined ? worse(baseEffect, effect ?? 'read') : 'read'
  return { ...entry, classification: natureOf(least, entry.classification) }
}

/** The effect of a call with these arguments. */
function effectOfCall({ baseEffect, conditions, choice, dryRun }: Variation, given: unknown): Effect {
  if (dryRun !== undefined && valuesAt(given, dryRun)[0] === true) return 'read'
  const chosen = choice ? effectOfChoice(choice, given) : 'read'
  return conditions
    .filter(({ when }) => isMet(when, given))
    .reduce<Effect>((effect, condition) => worse(effect, condition.effect), worse(baseEffect, chosen))
}

function effectOfChoice({ path, effects, otherwise, missing }: Choice, given: unknown): Effect {
  const values = valuesAt(given, path).flatMap((value) => (Array.isArray(value) ? value : [value]))
  if (values.length === 0) return otherwise
  return worst(
    values.map((value: unknown) => {
      if (value === undefined) return missing
      const text = typeof value === 'string' ? value.trim().toLowerCase() : undefined
      return text !== undefined && Object.hasOwn(effects, text) ? (effects[text] ?? otherwise) : otherwise
    }),
  )
}

/**
 * The values at a path, of which `*` stands for all items of an array. What is not there is `undefined`; what is there
 * in another form than the schema has is `mismatch`.
 */
function valuesAt(given: unknown, path: readonly string[]): readonly unknown[] {
  const [step, ...rest] = path
  if (step === undefined) return [given]
  if (step === '*' && Array.isArray(given))
    return given.flatMap((item: unknown) => valuesAt(item ?? mismatch, rest))
  if (given === undefined) return [undefined]
  if (!isObject(given)) return [mismatch]
  if (step === '*') return valuesAt(given, rest)
  return valuesAt(Object.hasOwn(given, step) ? given[step] : undefined, rest)
}

/** What is never the value of an argument. */
const mismatch = {}

function isMet({ path, is, harmless = [], fallback }: Condition, given: unknown): boolean {
  const found = valuesAt(given, path)
  return found.some((each) => {
    const value = each ?? fallback
    if (is === 'stores') return /"\$(?:out|merge)"/.test(JSON.stringify(value) ?? '')
    if (value === undefined || value === null || value === false || value === '') return false
    if (is === 'given') return true
    const texts: readonly unknown[] = Array.isArray(value) ? value : [value]
    return texts.some((text) => typeof text !== 'string' || !harmless.includes(text.trim().toLowerCase()))
  })
}

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

function natureOf(effect: Effect, classification: Classification): Classification {
  const op = opOfEffect(effect, effect === 'destructive' ? classification.verb : undefined)
  const isRead = effect === 'read'
  return {
    ...classification,
    op,
    risk: riskOfEffect[effect],
    idempotent: isRead || (op !== 'execute' && classification.idempotent),
  }
}
