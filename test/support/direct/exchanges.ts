/** Asks a server and a gateway the same, and finds where their answers differ. */
import { isDeepStrictEqual } from 'node:util'
import type { ConnectOptions, Reply } from '../client/options.ts'
import { until } from '../condition.ts'
import { connect, type FakeClient } from '../fake-client.ts'
import { isObject, type Json, parseExact } from '../server/json.ts'
import { type Addition, withoutAdditions, withoutSent } from './additions.ts'

/** What is asked, besides the opening and the lists. */
export interface Question {
  readonly method: string
  readonly params?: Json
}

/** An answer, with the notifications before it; those outside of requests are the notes of `others`. */
export interface Answer {
  readonly method: string
  /** What was asked, for people. */
  readonly title: string
  readonly response: Json
  readonly notes: readonly unknown[]
}

/** Questions for any server: whatever it lists and does not have. */
const nowhere: readonly Question[] = [
  { method: 'tools/call', params: { name: 'no_such_tool', arguments: {} } },
  { method: 'prompts/get', params: { name: 'no_such_prompt' } },
  { method: 'resources/read', params: { uri: 'nowhere:///none' } },
  {
    method: 'completion/complete',
    params: { ref: { type: 'ref/prompt', name: 'none' }, argument: { name: 'a', value: '' } },
  },
  { method: 'no/such/method' },
]

const lists = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']

/** Connects, and asks everything. */
export async function answersOf(
  options: ConnectOptions,
  questions: readonly Question[],
  changes = 0,
): Promise<readonly Answer[]> {
  let opening: Json = {}
  const records: ConnectOptions['records'] = (message, asked) => {
    if (asked === 'initialize' || asked === 'server/discover') opening = message
  }
  const client = await connect({ ...options, records })
  try {
    const isModern = client.traits.modern
    const answers: Answer[] = [
      answer(isModern ? 'server/discover' : 'initialize', 'opening', {
        response: responseIn(opening),
        notes: [],
      }),
    ]
    const listening =
      isModern && changes > 0
        ? client.listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true })
        : undefined
    await listening?.acknowledged
    for (const method of lists) answers.push(await ask(client, { method }))
    for (const question of [...questions, ...nowhere, ...(isModern ? [] : [{ method: 'ping' }])])
      answers.push(await ask(client, question))
    // On a pipe, nothing says whether a change belongs to a call.
    const inCalls = answers.flatMap(({ notes }) => notes.filter(isChange))
    const heard = (): readonly unknown[] => {
      const outside = (listening?.notes ?? client.notes).map(({ text }) => exact(text))
      return [...inCalls, ...outside].toSorted((one, other) =>
        JSON.stringify(one).localeCompare(JSON.stringify(other)),
      )
    }
    const kinds = (): number => new Set(heard().filter(isChange).map(methodOf)).size
    if (changes > 0) await until(() => kinds() >= changes, `${changes} kinds of changes`)
    // Those that a server sends when it is ready arrive before the client of a gateway is there.
    const notes = heard().filter((note) => changes > 0 || !isChange(note))
    answers.push({ method: 'notifications', title: 'outside of requests', response: {}, notes })
    await listening?.close()
    return answers.map((each) =>
      each.method === 'notifications'
        ? each
        : { ...each, notes: each.notes.filter((note) => !isChange(note)) },
    )
  } finally {
    await client.close()
  }
}

async function ask(client: FakeClient, { method, params }: Question): Promise<Answer> {
  const about = params?.['name'] ?? params?.['uri'] ?? ''
  const reply = await client.request(method, params, { progressToken: 'token' })
  return answer(method, `${method} ${String(about)}`.trim(), {
    response: responseIn(exact(reply.text)),
    notes: notesOf(reply),
  })
}

function answer(
  method: string,
  title: string,
  { response, notes }: Pick<Answer, 'response' | 'notes'>,
): Answer {
  return { method, title, response, notes }
}

function notesOf({ notes }: Reply): readonly unknown[] {
  return notes.map(({ text }) => exact(text))
}

/** A message in which each number is as it was written. */
function exact(text: string): unknown {
  return parseExact(text, (digits) => ({ digits }))
}

function responseIn(message: unknown): Json {
  if (!isObject(message)) return {}
  const { result, error } = message
  return { ...(result !== undefined && { result }), ...(error !== undefined && { error }) }
}

/** A difference between two answers. */
interface Difference {
  readonly at: string
  readonly direct: unknown
  readonly through: unknown
}

/** The differences that no addition explains, in words. */
export function differences(
  direct: readonly Answer[],
  through: readonly Answer[],
  additions: readonly Addition[],
): readonly string[] {
  return direct.flatMap((own, index) => {
    const other = through[index]
    if (!other) return [`${own.title}: not asked`]
    const pair = withoutAdditions(own.method, other.response, own.response, additions)
    const sent = withoutSent(other.notes, own.notes, additions)
    const notes = sent.map((note, at) => withoutAdditions(methodOf(note), note, own.notes[at], additions))
    return [
      ...differing(pair.direct, pair.through, 'response'),
      ...differing(
        own.notes.map((note, at) => notes[at]?.direct ?? note),
        notes.map((note) => note.through),
        'notes',
      ),
    ].map(({ at, direct: one, through: two }) => `${own.title}: ${at}: ${shown(one)} is ${shown(two)}`)
  })
}

function isChange(note: unknown): boolean {
  return /(?:list_changed|updated)$/.test(methodOf(note))
}

function methodOf(note: unknown): string {
  return isObject(note) ? String(note['method']) : ''
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 300)
}

function differing(direct: unknown, through: unknown, at: string): Difference[] {
  if (isDeepStrictEqual(direct, through)) return []
  if (Array.isArray(direct) && Array.isArray(through) && direct.length === through.length)
    return direct.flatMap((each: unknown, index) => differing(each, through[index], `${at}[${index}]`))
  if (!isObject(direct) || !isObject(through)) return [{ at, direct, through }]
  const keys = [...new Set([...Object.keys(direct), ...Object.keys(through)])]
  return keys.flatMap((key) => differing(direct[key], through[key], `${at}.${key}`))
}

/** The params of calls of tools. */
export function calls(
  ...names: readonly (string | readonly [name: string, args: Json])[]
): readonly Question[] {
  return names.map((each) => {
    const [name, args] = typeof each === 'string' ? [each, {}] : each
    return { method: 'tools/call', params: { name, arguments: args } }
  })
}

/** The questions of the answers of an odd server: those that name something. */
export function questionsOf(answers: Readonly<Record<string, unknown>>): readonly Question[] {
  return Object.keys(answers).flatMap((key): Question[] => {
    const [method = '', about] = key.split(' ')
    if (method === 'completion/complete')
      return [
        { method, params: { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'a', value: '' } } },
      ]
    if (about === undefined) return []
    if (method === 'resources/read') return [{ method, params: { uri: about } }]
    return [{ method, params: { name: about, ...(method === 'tools/call' && { arguments: {} }) } }]
  })
}
