/**
 * The judgement of one call: a tool is listed with its worst effect, and a call is held to what its own arguments do.
 */
import type { Descriptor, Classification, Operation, Risk } from '../entry.ts'
import { isObject } from '../json.ts'
import type { Payload } from '../payload.ts'
import type { Effect } from './evidence.ts'
import { effectOfCall } from './judge.ts'
import { verbClass } from './lexicon.ts'

/** The risk of each effect. */
export const riskOfEffect: Readonly<Record<Effect, Risk>> = {
  read: 'safe',
  write: 'reversible',
  destructive: 'destructive',
  execute: 'destructive',
}

/** The kind of action an effect is; scopes tell deleting and administering from other destruction by the verb. */
export function opOfEffect(effect: Effect, verb: string | undefined): Operation {
  if (effect !== 'destructive') return effect
  const kind = verb === undefined ? undefined : verbClass(verb)
  if (kind === 'admin') return 'admin'
  return kind === 'destructive' || kind === 'soft' ? 'delete' : 'write'
}

/** An entry as one call of it is: with the classification that its arguments give it. */
export function asCalled(entry: Descriptor, { params }: { readonly params: Payload }): Descriptor {
  const { varies } = entry.classification
  if (!varies) return entry
  const given = params.fields.arguments
  const effect = effectOfCall(varies, isObject(given) ? given : {})
  return { ...entry, classification: natureOf(effect, entry.classification) }
}

function natureOf(effect: Effect, classification: Classification): Classification {
  const op = opOfEffect(effect, effect === 'destructive' ? classification.verb : undefined)
  const isRead = effect === 'read'
  return {
    ...classification,
    op,
    risk: riskOfEffect[effect],
    idempotent: isRead || classification.idempotent,
  }
}
