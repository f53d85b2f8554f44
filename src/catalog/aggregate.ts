import type { Call, Handler, Note, Outcome } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { self } from '../core/self.ts'
import { method } from '../wire/methods.ts'
import { listenToAll } from './listen-all.ts'
import { mergeDiscovered, nameEntries, nameUris } from './merge.ts'
import { canCollide, type Candidate, exposedName, exposedUri, namesOf, uriOf } from './names.ts'

interface Options {
  readonly names: readonly string[]
  /** Does a call that names its server. */
  readonly handle: Handler
  /** Aborted when the set of servers changes. */
  readonly ended: AbortSignal
}

/** Several servers as one. */
export interface Aggregate {
  readonly handle: Handler
  resolve(call: Call): Promise<Call | undefined>
  /** Tool and prompt names of different servers that would be the same. */
  collisions(call: Call): Promise<string[]>
}

const MAX_PAGES = 1000

/** Offers servers together: lists are joined, names get the server's name in front, URIs too. */
export function aggregate({ names, handle, ended }: Options): Aggregate {
  const toServer = (call: Call, { upstream, name }: Candidate, params: Payload): Promise<Outcome> =>
    handle({
      ...call,
      params,
      target: { method: call.method, upstream, name },
      emit: namedEmit(call, upstream),
    })

  const forServer = (call: Call, upstream: string): Call => ({
    ...call,
    target: { ...call.target, upstream },
    emit: namedEmit(call, upstream),
  })

  /** The one server a name is of. Where two might be meant, their lists decide. */
  const find = async (call: Call, list: string, name: string): Promise<Candidate> => {
    const candidates = namesOf(name, names)
    const [first, ...others] = candidates
    if (first && others.length === 0) return first
    for (const candidate of candidates) {
      const entries = await walk(handle, forServer(call, candidate.upstream), list)
      if (entries.some(({ fields }) => fields.name === candidate.name)) return candidate
    }
    throw unknown(call.method, name)
  }

  const locate = async (call: Call): Promise<[Candidate, Payload] | undefined> => {
    const { name: subject } = call.target
    if (call.method === 'completion/complete') return locateReference(call)
    if (subject === undefined) return undefined
    if (call.method === 'resources/read') {
      const found = uriOf(subject, names)
      if (!found) throw unknown(call.method, subject)
      return [found, call.params.with({ uri: found.name })]
    }
    if (call.method !== 'tools/call' && call.method !== 'prompts/get') return undefined
    const found = await find(call, call.method === 'tools/call' ? 'tools/list' : 'prompts/list', subject)
    return [found, call.params.with({ name: found.name })]
  }

  const locateReference = async (call: Call): Promise<[Candidate, Payload]> => {
    const reference = call.params.at('ref')
    const { name, uri } = reference?.fields ?? {}
    if (reference && typeof uri === 'string') {
      const found = uriOf(uri, names)
      if (found) return [found, call.params.with({ ref: reference.with({ uri: found.name }) })]
    }
    if (!reference || typeof name !== 'string') throw unknown(call.method, String(uri))
    const found = await find(call, 'prompts/list', name)
    return [found, call.params.with({ ref: reference.with({ name: found.name }) })]
  }

  const joined = async (call: Call, list: string): Promise<Outcome> => {
    if (call.params.fields.cursor !== undefined) {
      throw new GatewayError(
        'INVALID_INPUT',
        'Invalid params: this list has one page, so there is no such cursor.',
      )
    }
    const lists = await fromAll(names, async (upstream) => {
      const entries = await walk(handle, forServer(call, upstream), call.method)
      return nameEntries(upstream, entries)
    })
    return done(
      Payload.of({}).with({
        [list]: Payload.text(
          `[${lists
            .flat()
            .map((each) => each.text)
            .join(',')}]`,
        ),
      }),
    )
  }

  return {
    handle: async (call) => {
      if (call.method === 'server/discover') {
        const found = await fromAll(names, async (upstream) =>
          resultOf(await handle(forServer(call, upstream))),
        )
        return done(mergeDiscovered(found, self))
      }
      if (call.method === 'subscriptions/listen') return listenToAll(call, names, handle, ended)
      if (call.method.startsWith('notifications/')) {
        await fromAll(names, (upstream) => handle(forServer(call, upstream)))
        return done(Payload.of({}))
      }
      const { list } = method(call.method)
      if (list !== undefined) return joined(call, list)
      const found = await locate(call)
      if (!found)
        throw new GatewayError('UNSUPPORTED_OPERATION', `Method not found: ${call.method}`, namedOnly)
      const outcome = await toServer(call, ...found)
      return outcome.kind === 'ask' ? outcome : done(nameUris(found[0].upstream, outcome.result))
    },

    resolve: async (call) => {
      const found = await locate(call)
      return found && { ...call, params: found[1], target: { method: call.method, ...found[0] } }
    },

    collisions: async (call) => {
      const close = names.filter((one) => names.some((other) => canCollide(one, other)))
      const owners = new Map<string, string>()
      const found: string[] = []
      const note = (list: string, upstream: string, name: unknown): void => {
        const exposed = exposedName(upstream, String(name))
        const owner = owners.get(`${list} ${exposed}`)
        if (owner !== undefined) found.push(`${exposed} is both of ${owner} and of ${upstream}`)
        owners.set(`${list} ${exposed}`, upstream)
      }
      for (const list of ['tools/list', 'prompts/list']) {
        for (const upstream of close) {
          const entries = await walk(handle, forServer(call, upstream), list).catch(() => [])
          for (const { fields } of entries) note(list, upstream, fields.name)
        }
      }
      return found
    },
  }
}

/** All entries of a list, page by page. */
async function walk(handle: Handler, call: Call, list: string): Promise<Payload[]> {
  const key = method(list).list ?? ''
  const entries: Payload[] = []
  const seen = new Set<unknown>()
  let cursor: unknown
  for (let page = 0; page < MAX_PAGES && !seen.has(cursor); page++) {
    seen.add(cursor)
    const params = Payload.of({ ...(cursor !== undefined && { cursor }) }).withMeta(call.meta)
    const target = { ...call.target, method: list }
    const result = resultOf(await handle({ ...call, method: list, params, target }).catch(absentList))
    entries.push(...listed(result, key))
    cursor = result.fields.nextCursor
    if (typeof cursor !== 'string' || cursor === '') break
  }
  return entries
}

/** A server without the capability has an empty list. */
function absentList(error: unknown): Outcome {
  if (asGatewayError(error).rpc === -32601) return done(Payload.of({}))
  throw error
}

function listed(result: Payload, key: string): Payload[] {
  const list = result.at(key)
  return list && Array.isArray(list.value) ? list.items : []
}

/** Asks every server; those that fail are left out, unless all do. */
async function fromAll<Value>(
  names: readonly string[],
  ask: (name: string) => Promise<Value>,
): Promise<Value[]> {
  const settled = await Promise.allSettled(names.map(ask))
  const found = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  const [failure] = settled.filter((each) => each.status === 'rejected')
  if (found.length === 0 && failure) throw failure.reason
  return found
}

/** Notes of one server with its URIs named as the client knows them. */
function namedEmit(call: Call, upstream: string): (note: Note) => void {
  return (note) => {
    const uri = note.params?.fields.uri
    const isUpdate = note.method === 'notifications/resources/updated' && typeof uri === 'string'
    if (!isUpdate) return call.emit(note)
    call.emit({
      ...note,
      ...(note.params && { params: note.params.with({ uri: exposedUri(upstream, uri) }) }),
    })
  }
}

function resultOf(outcome: Outcome): Payload {
  if (outcome.kind === 'result') return outcome.result
  throw new GatewayError('SERVER_ERROR', 'A list was answered with a question.')
}

function done(result: Payload): Outcome {
  return { kind: 'result', result }
}

const namedOnly = { suggestion: 'Methods the protocol does not define are served at /mcp/<server> only.' }

function unknown(name: string, subject: string): GatewayError {
  const shown = /^[\w.+:/-]{1,64}$/.test(subject) ? `: ${subject}` : ''
  if (name === 'tools/call') return new GatewayError('UNKNOWN_TOOL', `Unknown tool${shown}`)
  if (name === 'resources/read') {
    return new GatewayError('RESOURCE_NOT_FOUND', `Resource not found${shown}`, { data: { uri: subject } })
  }
  return new GatewayError('INVALID_INPUT', `Unknown prompt or reference${shown}`)
}
