/**
 * `gatehouse events`: lists the types of events of servers, and prints the events in the store. It works on the store of
 * running gateways; only `list` also connects to the servers.
 */
import type { Settings } from '../core/settings.ts'
import { fits } from '../core/text/pattern.ts'
import { openLog } from '../gateway/gateway.ts'
import { openSharedStore } from '../gateway/offline.ts'
import { openEventLog } from '../records/logged-events.ts'
import type { Store } from '../store/store.ts'
import { loggedTypes, offeredTypes, typeLines, typesView } from './event-types.ts'
import { entryLine, entryView, type ReadLog, Tail, type TailEntry } from './event-tail.ts'
import { didYouMean, parseWords, readSource, serverNamed, storeAlone, timeOf, UsageError } from './options.ts'

/** The options of the command. */
const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  store: { type: 'string' },
  json: { type: 'boolean' },
  type: { type: 'string' },
  since: { type: 'string' },
  follow: { type: 'boolean', short: 'f' },
} as const

/** What can be done, and the options of each beside those of all. */
const actions = {
  list: ['config', 'env-file', 'json'],
  tail: ['config', 'env-file', 'store', 'json', 'type', 'since', 'follow'],
} as const satisfies Readonly<Record<string, readonly (keyof typeof optionTypes)[]>>

type Action = keyof typeof actions

/** `gatehouse events list | tail`: lists the types of events, and prints logged events. */
export async function events(args: readonly string[]): Promise<number> {
  const options = parse(args, Date.now())
  return options.action === 'list' ? list(options) : tail(options)
}

interface EventOptions {
  readonly action: Action
  readonly words: readonly string[]
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly store: string | undefined
  readonly isJson: boolean
  /** The type of the events to print; `*` stands for any text. */
  readonly type: string | undefined
  /** In milliseconds since 1970. */
  readonly since: number | undefined
  readonly isFollowing: boolean
}

function parse(args: readonly string[], now: number): EventOptions {
  const { values, positionals } = parseWords(args, optionTypes)
  const [word = '', ...words] = positionals
  const names = Object.keys(actions)
  if (!isAction(word))
    throw new UsageError(`use gatehouse events ${names.join(' or ')}${didYouMean(word, names)}`)
  const allowed: readonly string[] = actions[word]
  const stray = Object.keys(values).find((name) => !allowed.includes(name))
  if (stray !== undefined) throw new UsageError(`--${stray} is not an option of events ${word}`)
  if (words.length > 1) throw new UsageError('give one server, or none for all')
  const { config, 'env-file': envFile, store, json = false, type, since, follow = false } = values
  if (store !== undefined && config !== undefined) throw new UsageError('give either --config or --store')
  const from = since === undefined ? undefined : timeOf(since, '--since', now)
  if (from !== undefined && from > now) throw new UsageError('--since is in the future')
  return { action: word, words, config, envFile, store, isJson: json, type, since: from, isFollowing: follow }
}

function isAction(word: string): word is Action {
  return Object.hasOwn(actions, word)
}

/** `gatehouse events list`: the types that clients are offered, with what the store contains of each. */
async function list({ words, isJson, ...options }: EventOptions): Promise<number> {
  const { settings } = readSource(options)
  const [name] = words
  const servers = name === undefined ? settings.upstreams : [serverNamed(name, settings)]
  const offered = await offeredTypes(settings, servers)
  // A store in memory exists only inside of the gateway.
  const logged =
    settings.store.kind === 'memory'
      ? undefined
      : await withStore(settings, (store) => loggedTypes(logsOf(store, name, settings)))
  const text = isJson
    ? JSON.stringify({ servers: offered.map((each) => typesView(each, logged)) }, null, 2)
    : offered.flatMap((each) => typeLines(each, logged)).join('\n')
  process.stdout.write(`${text}\n`)
  return offered.some(({ problem }) => problem !== undefined) ? 1 : 0
}

/** `gatehouse events tail`: the events in the store. */
async function tail(options: EventOptions): Promise<number> {
  const { settings } =
    options.store === undefined
      ? readSource({ ...options, words: [], isForStore: true })
      : storeAlone(options.store)
  const [name] = options.words
  if (name === undefined && options.store !== undefined)
    throw new UsageError('with --store, give the name of a server')
  return withStore(settings, async (store) => {
    const logs = logsOf(store, name, settings)
    // A server that was removed from the configuration can have events.
    const isKnown = options.store !== undefined || (await logs[0]?.log.hasBegun())
    if (name !== undefined && isKnown !== true) serverNamed(name, settings)
    await print(new Tail(logs), options)
    return 0
  })
}

async function print(logs: Tail, { isFollowing, isJson, type, since }: EventOptions): Promise<void> {
  const stopping = new AbortController()
  const stop = (): void => stopping.abort()
  // Such as `gatehouse events tail --follow | head`.
  process.stdout.once('error', stop)
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
  const isWanted = (entry: TailEntry): boolean => {
    if (entry.kind === 'gap') return since === undefined || entry.at === undefined || entry.at >= since
    const { name, at } = entry.event
    return (since === undefined || at >= since) && (type === undefined || fits(type, name))
  }
  let count = 0
  for await (const entry of isFollowing ? logs.follow(stopping.signal) : logs.entries()) {
    if (stopping.signal.aborted) break
    if (!isWanted(entry)) continue
    process.stdout.write(`${isJson ? entryView(entry) : entryLine(entry)}\n`)
    count++
  }
  if (count === 0 && !isFollowing && !isJson) process.stdout.write('No events.\n')
}

/** The log of a server, or those of all and of the gateway itself. They are only read. */
function logsOf(store: Store, name: string | undefined, { upstreams }: Settings): readonly ReadLog[] {
  const names = name === undefined ? [...upstreams.map((each) => each.name), undefined] : [name]
  return names.map((upstream) => ({ upstream, log: openEventLog(store, upstream, 0) }))
}

async function withStore<Result>(
  settings: Settings,
  act: (store: Store) => Promise<Result>,
): Promise<Result> {
  const store = await openSharedStore(settings, openLog('warn', process.stderr.isTTY))
  try {
    return await act(store)
  } finally {
    await store.close()
  }
}
