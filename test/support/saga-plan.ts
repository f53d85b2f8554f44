import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Seeded } from '../simulate/random.ts'
import type { Json } from './server/json.ts'

/** What a client is going to do in one transaction. */
export interface SagaPlan {
  readonly id: string
  readonly end: 'commit' | 'rollback' | 'abandon'
  readonly steps: readonly PlannedStep[]
  /** Whether it goes on although a step failed. */
  readonly isStubborn: boolean
}

export interface PlannedStep {
  readonly id: string
  readonly tool: string
  readonly arguments: Json
  readonly change: Change
}

/** What a step makes of the world. */
type Change =
  | { readonly kind: 'written'; readonly file: string; readonly content: string }
  | { readonly kind: 'moved'; readonly from: string; readonly to: string }
  | { readonly kind: 'entities'; readonly names: readonly string[] }
  | { readonly kind: 'relation'; readonly name: string }
  | { readonly kind: 'effect'; readonly key: string }
  /** It only reads, or it always fails. */
  | { readonly kind: 'none' }

/** What a file of a transaction holds before it begins. */
export function before(file: string): string {
  return `${file} as it was`
}

/** The files a transaction may change; the last ones are moved. */
export function filesOf(plan: string): readonly string[] {
  return ['a', 'b', 'c0', 'c1', 'c2', 'c3', 'c4', 'c5'].map((name) => `${plan}-${name}`)
}

/** Of those that are to be committed some are rolled back: where a step fails. */
const ends = ['commit', 'rollback', 'commit', 'abandon', 'commit', 'rollback', 'commit', 'abandon'] as const
/** How often a step is faulty. */
const FAULTY = 0.06

/** Plans so many transactions, and puts the files there they begin with. */
export function planSagas(count: number, folder: string, random: Seeded): readonly SagaPlan[] {
  return Array.from({ length: count }, (_each, index) => {
    const id = `saga-${index}`
    for (const file of filesOf(id)) writeFileSync(join(folder, file), before(file))
    return planSaga(id, index, random, (number) => planStep({ saga: id, number, folder, random }))
  })
}

/** Plans so many transactions of effects alone, by the tool with this name; `from` begins their ids. */
export function planEffectSagas(
  count: number,
  from: string,
  tool: string,
  random: Seeded,
): readonly SagaPlan[] {
  return Array.from({ length: count }, (_each, index) => {
    const id = `${from}-${index}`
    return planSaga(id, index, random, (number) => {
      const word = random.chance(FAULTY) ? random.pick(['fail', ...faultyWords]) : 'plain'
      return { id: idOfStep(number), ...effect(word)({ saga: id, number, folder: '', random }), tool }
    })
  })
}

function planSaga(
  id: string,
  index: number,
  random: Seeded,
  step: (number: number) => PlannedStep,
): SagaPlan {
  const steps = Array.from({ length: 3 + random.below(4) }, (_step, number) => step(number))
  const end = ends[index % ends.length] ?? 'commit'
  return { id, end, steps, isStubborn: random.chance(0.6) }
}

/** Effects with which something is wrong. */
const faultyWords = ['lost', 'ignored', 'fixed', 'sticky'] as const

function idOfStep(number: number): string {
  return `s${number + 1}`
}

interface Place {
  readonly saga: string
  readonly number: number
  readonly folder: string
  readonly random: Seeded
}

function planStep(place: Place): PlannedStep {
  const { number, random } = place
  const make = random.chance(FAULTY)
    ? random.pick([refusedWrite, failing, ...faultyWords.map(effect)])
    : random.pick([written, written, moved, entities, relation, effect('plain'), effect('plain'), read])
  return { id: idOfStep(number), ...make(place) }
}

type Made = Omit<PlannedStep, 'id'>

function written({ saga, number, folder, random }: Place): Made {
  const file = `${saga}-${random.pick(['a', 'b'])}`
  const content = `${file} by step ${number + 1}`
  return {
    tool: 'files_write_file',
    arguments: { path: join(folder, file), content },
    change: { kind: 'written', file, content },
  }
}

function moved({ saga, number, folder }: Place): Made {
  const from = `${saga}-c${number}`
  const to = `${from}-moved`
  return {
    tool: 'files_move_file',
    arguments: { source: join(folder, from), destination: join(folder, to) },
    change: { kind: 'moved', from, to },
  }
}

function entities({ saga, number, random }: Place): Made {
  const names = ['x', 'y'].slice(0, 1 + random.below(2)).map((name) => `${saga}-${number}-${name}`)
  const given = names.map((name) => ({ name, entityType: 'thing', observations: ['seen'] }))
  return {
    tool: 'graph_create_entities',
    arguments: { entities: given },
    change: { kind: 'entities', names },
  }
}

function relation({ saga, number }: Place): Made {
  const [from, to] = [`${saga}-${number}-from`, `${saga}-${number}-to`]
  return {
    tool: 'graph_create_relations',
    arguments: { relations: [{ from, to, relationType: 'knows' }] },
    change: { kind: 'relation', name: `${from}>${to}` },
  }
}

function effect(word: string): (place: Place) => Made {
  return ({ saga, number }) => {
    const key = `${saga}-${number}`
    return {
      tool: 'effects_add_effect',
      arguments: { key, value: `${word} of ${key}` },
      change: { kind: 'effect', key },
    }
  }
}

function read({ saga, folder }: Place): Made {
  return {
    tool: 'files_read_text_file',
    arguments: { path: join(folder, `${saga}-a`) },
    change: { kind: 'none' },
  }
}

function refusedWrite({ saga }: Place): Made {
  return {
    tool: 'files_write_file',
    arguments: { path: `/nowhere/${saga}`, content: '' },
    change: { kind: 'none' },
  }
}

function failing({ saga, number }: Place): Made {
  return {
    tool: 'effects_add_effect',
    arguments: { key: `${saga}-${number}`, value: 'fail' },
    change: { kind: 'none' },
  }
}
