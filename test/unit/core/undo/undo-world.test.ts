import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { evaluate, type Expression } from '../../../../src/core/undo/expression.ts'
import { isSure, proposeUndo } from '../../../../src/core/undo/inverse.ts'
import { readUndo } from '../../../../src/core/undo/rules.ts'
import {
  change,
  changedIds,
  make,
  remove,
  takesArgument,
  World,
  type WorldTool,
} from '../../../support/record-world.ts'
import type { Json } from '../../../support/server/json.ts'

const text = { type: 'string' }
const texts = { type: 'array', items: text }
const flag = { type: 'boolean' }
const some = { type: 'object' }

const schemas: Readonly<Record<string, Json>> = {
  board: text,
  name: text,
  title: text,
  id: text,
  card_id: text,
  filter: some,
  where: some,
  ids: texts,
  names: texts,
  scope: text,
  all: flag,
  dry_run: flag,
  overwrite: flag,
}

/** Arguments of a tool, each required, optional or absent. */
function inputs(...names: readonly string[]): fc.Arbitrary<Json> {
  return fc
    .tuple(...names.map(() => fc.constantFrom('required', 'required', 'optional', 'absent', 'absent')))
    .map((kinds) =>
      objectOf(
        names.filter((_name, at) => kinds[at] !== 'absent'),
        names.filter((_name, at) => kinds[at] === 'required'),
      ),
    )
}

function objectOf(names: readonly string[], required: readonly string[]): Json {
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, schemas[name]])),
    required,
  }
}

/** The declared output members of a tool, if it declares any. */
function outputs(...names: readonly string[]): fc.Arbitrary<Json | undefined> {
  return fc.option(
    fc
      .subarray([...names])
      .chain((listed) => fc.subarray(listed).map((required) => objectOf(listed, required))),
    { nil: undefined },
  )
}

function named(words: readonly string[]): fc.Arbitrary<string> {
  return fc.constantFrom(
    words.join('_'),
    words.join('-'),
    words.map((word, at) => (at === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1))).join(''),
    [...words].reverse().join('_'),
    `trello_${words.join('_')}`,
  )
}

function verbOf(verbs: readonly string[], noun: string): fc.Arbitrary<string> {
  return fc.constantFrom(...verbs).chain((verb) => named([verb, noun]))
}

/** Creates a tool that operates on items of a noun. */
type Making = (noun: string) => fc.Arbitrary<WorldTool>

const fails = 'Fails if there is one at the destination already: none may exist.'
const ends = ['Moves it.', fails]

/** The description by which a server states, or omits, that the created item may exist already. */
const takings: readonly Json[] = [
  { annotations: { idempotentHint: true } },
  { description: 'Creates a card, or updates the one of that name.' },
]

const maker: Making = (noun) =>
  fc
    .record({
      name: verbOf(['create', 'add', 'insert', 'register', 'upload'], noun),
      inputSchema: inputs('board', 'name', 'title', 'id', 'overwrite', 'dry_run'),
      outputSchema: outputs('id', 'card_id', 'board', 'name', 'title'),
      taking: fc.option(fc.constantFrom(...takings), { nil: undefined }),
    })
    .map(({ name, inputSchema, outputSchema, taking }) => {
      // A tool named `add` may find its item without stating so.
      const takes = taking !== undefined || !/create|insert/i.test(name)
      const definition = { name, inputSchema, ...(outputSchema && { outputSchema }), ...taking }
      return {
        definition,
        run: (world, args) => {
          if (args['dry_run'] === true) throw new Error('nothing is made')
          const made = make(world, args, { takes: takes || args['overwrite'] === true, definition })
          return { ...made, card_id: made.id }
        },
      }
    })

const bulkMaker: Making = (noun) =>
  fc
    .record({
      name: verbOf(['create', 'insert', 'add'], noun),
      inputSchema: fc.constantFrom(
        objectOf(['board', 'names'], ['names']),
        objectOf(['board', 'names'], ['board', 'names']),
      ),
      outputSchema: outputs('ids', 'names', 'board', 'id'),
    })
    .map(({ name, inputSchema, outputSchema }) => ({
      name,
      inputSchema,
      ...(outputSchema && { outputSchema }),
    }))
    .map((definition) => ({
      definition,
      run: (world, args) => {
        const names: readonly string[] = Array.isArray(args['names']) ? args['names'] : []
        const board = String(args['board'] ?? 'inbox')
        // Existing items are skipped, and the result lists the new ones.
        const fresh = [...new Set(names)].filter((each) => world.fitting({ board, name: each }).length === 0)
        const made = fresh.map((each) => make(world, { ...args, name: each }, { takes: false, definition }))
        return { ids: made.map(({ id }) => id), names: fresh, board, id: made[0]?.id ?? '' }
      },
    }))

const remover: Making = (noun) =>
  fc
    .record({
      name: verbOf(['delete', 'remove', 'unregister', 'destroy'], noun),
      inputSchema: fc.oneof(
        inputs('board', 'name', 'id', 'filter', 'scope', 'all', 'dry_run'),
        inputs('card_id', 'where', 'title', 'board'),
        inputs('ids', 'names', 'board', 'all'),
        inputs('id'),
        inputs('name', 'board'),
      ),
    })
    .map((definition) => ({ definition, run: (world, args) => ({ count: remove(world, args, definition) }) }))

/** The arguments that select items; a name selects only if nothing else does. */
function selecting(args: Json, definition: Json): Json {
  const isById = ['id', 'card_id', 'where', 'filter'].some((name) => takesArgument(definition, name))
  return only(args, ['board', 'id', 'filter', 'where', 'card_id', ...(isById ? [] : ['name'])])
}

function only(args: Json, names: readonly string[]): Json {
  return Object.fromEntries(Object.entries(args).filter(([name]) => names.includes(name)))
}

const updater: Making = (noun) =>
  fc
    .record({
      name: verbOf(['update', 'set', 'edit', 'rename', 'write'], noun),
      inputSchema: fc.oneof(
        inputs('board', 'id', 'title', 'where'),
        inputs('id', 'title'),
        inputs('card_id', 'title', 'name'),
        inputs('title', 'filter'),
      ),
    })
    .map((definition) => ({
      definition,
      run: (world, args) => {
        const { title, name } = args
        const fields = {
          ...(typeof title === 'string' && { title }),
          ...(typeof name === 'string' && { name }),
        }
        return { count: change(world, selecting(args, definition), fields) }
      },
    }))

const reader: Making = (noun) =>
  fc
    .record({
      name: verbOf(['get', 'read', 'show'], noun),
      inputSchema: fc.oneof(
        inputs('board', 'id', 'card_id'),
        fc.constant(objectOf(['id'], ['id'])),
        fc.constant(objectOf(['card_id'], ['card_id'])),
        inputs('name', 'board'),
      ),
      outputSchema: fc.oneof(
        outputs('title', 'name', 'id', 'board'),
        fc.constant(objectOf(['title', 'name'], ['title', 'name'])),
      ),
    })
    .map(({ outputSchema, ...others }) => ({
      definition: { ...others, ...(outputSchema && { outputSchema }), annotations: { readOnlyHint: true } },
      run: (world, args) => {
        const [found, ...more] = world.fitting(args)
        if (!found || (more.length > 0 && args['name'] !== undefined))
          throw new Error('not found, or several')
        return { ...found }
      },
    }))

const switcher: Making = (noun) =>
  fc
    .record({
      name: verbOf(['close', 'reopen', 'archive', 'unarchive'], noun),
      inputSchema: inputs('board', 'id', 'filter'),
    })
    .map((definition) => ({
      definition,
      run: (world, args) => {
        const isClosed = /close|archive/i.test(definition.name) && !/reopen|unarchive/i.test(definition.name)
        return { count: change(world, selecting(args, definition), { isClosed }) }
      },
    }))

/** Moves one item, or all, from one board to another. */
const mover: Making = (noun) =>
  fc
    .record({
      name: verbOf(['move'], noun),
      ends: fc.constantFrom(
        ['from_board', 'to_board'],
        ['source', 'destination'],
        ['old_board', 'new_board'],
      ),
      isAimed: fc.boolean(),
      description: fc.constantFrom(...ends),
    })
    .map(({ name, ends: [from = '', to = ''], isAimed, description }) => ({
      definition: { name, description, inputSchema: textsOf(from, to, ...(isAimed ? ['id'] : [])) },
      run: (world, args) => {
        const selected = { board: args[from], ...(isAimed && { id: args['id'] }) }
        return { count: change(world, selected, { board: String(args[to]) }) }
      },
    }))

/** Renames an item. */
const renamer: Making = (noun) =>
  fc
    .record({
      name: verbOf(['rename'], noun),
      ends: fc.constantFrom(['source', 'destination'], ['old_name', 'new_name'], ['from', 'to']),
      description: fc.constantFrom(...ends),
    })
    .map(({ name, ends: [from = '', to = ''], description }) => ({
      definition: { name, description, inputSchema: textsOf(from, to) },
      run: (world, args) => {
        const taken = world.fitting({ name: args[to] })
        if (taken.length > 0 && description === fails) throw new Error('there is one')
        for (const { id } of taken) world.records.delete(id)
        const count = change(world, { name: args[from] }, { name: String(args[to]) })
        if (count === 0) throw new Error('not found')
        return { count }
      },
    }))

function textsOf(...names: readonly string[]): Json {
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((each) => [each, text])),
    required: names,
  }
}

const kinds = [
  maker,
  maker,
  bulkMaker,
  remover,
  remover,
  updater,
  updater,
  reader,
  reader,
  switcher,
  mover,
  renamer,
]
const tools = fc.constantFrom('card', 'card', 'card', 'note', 'cards', 'many').chain((noun) =>
  fc.uniqueArray(fc.oneof(...kinds.map((kind) => kind(noun))), {
    minLength: 2,
    maxLength: 7,
    size: 'max',
    selector: ({ definition }) => definition['name'],
  }),
)

const word = fc.constantFrom('a', 'b', 'c')
const records = fc
  .array(fc.record({ board: word, name: word, title: word, isClosed: fc.boolean() }), {
    minLength: 1,
    maxLength: 6,
    size: 'max',
  })
  .map((all) => all.map((each, at) => ({ ...each, id: `r${at + 1}` })))

/** Values for arguments, some of which name existing items. */
const values = fc.record({
  text: fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 8, maxLength: 8 }),
  id: fc.array(fc.constantFrom('r1', 'r2', 'r3', 'a'), { minLength: 8, maxLength: 8 }),
  isOn: fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
})

function argumentsOf(
  { inputSchema }: Json,
  { text: words, id: ids, isOn }: { text: string[]; id: string[]; isOn: boolean[] },
): Json {
  const { properties, required }: { properties: Record<string, Json>; required: string[] } =
    Object(inputSchema)
  const given = Object.entries(properties).flatMap(([name, { type }], at): [string, unknown][] => {
    if (!required.includes(name) && isOn[at % 8] !== true) return []
    const from = /(?:^|_)ids?$/.test(name) ? ids : words
    const value = from[at % 8]
    if (type === 'array') return [[name, [value, from[(at + 1) % 8]]]]
    if (type === 'object') return [[name, { title: value }]]
    return [[name, type === 'boolean' ? isOn[(at + 3) % 8] : value]]
  })
  return Object.fromEntries(given)
}

/** Calls a listed tool; undefined if the server refuses the call or it cannot be built. */
function tryCall(all: readonly WorldTool[], world: World, call: Expression, scope: Json): Json | undefined {
  const tool = all.find(({ definition }) => definition['name'] === call.tool)
  try {
    return tool?.run(world, evaluate(call, { args: {}, ...scope }))
  } catch {
    return undefined
  }
}

describe('execution of certain undo proposals', () => {
  test('undo affects only what the call created or changed and restores the state before it', () => {
    const undone = new Map<string, number>()
    fc.assert(
      fc.property(tools, records, values, (all, start, given) => {
        const definitions = all.map(({ definition }) => definition)
        for (const tool of all) {
          const { proposal } = proposeUndo(tool.definition, definitions)
          if (!proposal || !isSure(proposal)) continue
          const rule = readUndo(proposal.undo)
          if (rule.kind === 'none') continue
          const world = new World(start)
          const before = world.copy()
          const args = argumentsOf(tool.definition, given)
          const snapshot = rule.kind === 'restore' ? tryCall(all, world, rule.snapshot, { args }) : undefined
          if (rule.kind === 'restore' && !snapshot) continue
          let result: Json
          try {
            result = tool.run(world, args)
          } catch {
            continue
          }
          const touched = changedIds(before, world.records)
          // Other callers act meanwhile.
          const others = world.add({ board: 'a', name: 'z', title: 'a', isClosed: false })
          const after = world.copy()
          const isUndone = tryCall(all, world, rule.kind === 'call' ? rule.call : rule.restore, {
            args,
            result,
            snapshot,
          })
          const hit = changedIds(after, world.records)
          const context = JSON.stringify({ tool: tool.definition, args, result, proposal, definitions })
          const foreign = [...hit].filter((id) => !touched.has(id))
          expect({ foreign, context }).toEqual({ foreign: [], context })
          if (!isUndone) continue
          world.records.delete(others.id)
          const left = [...changedIds(before, world.records)]
          expect({ left, context }).toEqual({ left: [], context })
          undone.set(rule.kind, (undone.get(rule.kind) ?? 0) + 1)
        }
      }),
      { numRuns: 5000 },
    )
    expect(undone.get('call')).toBeGreaterThan(30)
    expect(undone.get('restore')).toBeGreaterThan(2)
  }, 120_000)
})
