/**
 * `gatehouse events`: lists the types of events of servers, prints the events in the store, and manages subscriptions. It
 * works on the store of running gateways; only `list` also connects to the servers.
 */
import type { StoredSettings } from '../config/load-sections.ts'
import type { Settings } from '../core/settings.ts'
import { escapeHidden } from '../core/text/escape.ts'
import { fits } from '../core/text/pattern.ts'
import { openLog } from '../observability/log.ts'
import { audited, openSharedStore } from '../gateway/offline.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { type DeadLetter, DeadLetters } from '../records/dead-letters.ts'
import { EventSubscriptions, type SubscriptionRecord } from '../records/event-subscriptions.ts'
import { openEventLog } from '../records/logged-events.ts'
import type { Store } from '../store/store.ts'
import { eventIdOf, letterLines, letterView, withSubscriptions } from './dead-letters.ts'
import { droppedLine, subscriptionLines, subscriptionView, withWaiting } from './event-subscriptions.ts'
import { entryLine, entryView, type ReadLog, Tail, type TailEntry } from './event-tail.ts'
import { readStored } from './config-file.ts'
import { didYouMean, parseWords, timeOf, UsageError, userName, unknownServer } from './words.ts'
import { type Io, print, printJson } from './io.ts'

/** The options of the command. */
const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  store: { type: 'string' },
  json: { type: 'boolean' },
  type: { type: 'string' },
  since: { type: 'string' },
  follow: { type: 'boolean', short: 'f' },
  all: { type: 'boolean' },
  principal: { type: 'string' },
} as const

/** What can be done: the options of each beside those of all, and how many words follow it at most. */
const actions = {
  list: { options: [], words: 1, run: list },
  tail: { options: ['store', 'type', 'since', 'follow'], words: 1, run: tail },
  subscriptions: { options: ['store', 'principal'], words: 2, run: subscriptions },
  'dead-letters': { options: ['store'], words: 1, run: deadLetters },
  redeliver: { options: ['store', 'all'], words: 2, run: redeliver },
} as const satisfies Readonly<Record<string, Action>>

interface Action {
  readonly options: readonly (keyof typeof optionTypes)[]
  readonly words: number
  run(options: EventOptions): Promise<number>
}

/** The shortest accepted prefix of the id of a subscription. */
const MIN_ID_LENGTH = 10

/** `gatehouse events list | tail | subscriptions | dead-letters | redeliver`: prints events, and manages subscriptions. */
export async function events(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseWords(args, optionTypes)
  const [word = '', ...words] = positionals
  const names = Object.keys(actions)
  if (!isAction(word)) {
    const known = `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
    throw new UsageError(`use gatehouse events ${known}${didYouMean(word, names)}`)
  }
  const action: Action = actions[word]
  const allowed: readonly string[] = ['config', 'env-file', 'json', ...action.options]
  const stray = Object.keys(values).find((name) => !allowed.includes(name))
  if (stray !== undefined) throw new UsageError(`--${stray} is not an option of events ${word}`)
  if (words.length > action.words)
    throw new UsageError(`unexpected argument ${JSON.stringify(words[action.words])}`)
  const { config, 'env-file': envFile, store, json = false, type, since, principal } = values
  if (store !== undefined && config !== undefined) throw new UsageError('give either --config or --store')
  const now = Date.now()
  const from = since === undefined ? undefined : timeOf(since, '--since', now)
  if (from !== undefined && from > now) throw new UsageError('--since is in the future')
  const { follow: isFollowing = false, all: isAll = false } = values
  const shared = { config, envFile, store, isJson: json }
  return action.run({ io, ...shared, words, type, since: from, principal, isFollowing, isAll })
}

interface EventOptions {
  readonly io: Io
  /** The words behind the action. */
  readonly words: readonly string[]
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly store: string | undefined
  readonly isJson: boolean
  /** The type of the events to print; `*` stands for any text. */
  readonly type: string | undefined
  /** In milliseconds since 1970. */
  readonly since: number | undefined
  /** The id of the caller whose subscriptions are meant. */
  readonly principal: string | undefined
  readonly isFollowing: boolean
  readonly isAll: boolean
}

function isAction(word: string): word is keyof typeof actions {
  return Object.hasOwn(actions, word)
}

/** `gatehouse events list`: the types that clients are offered, with what the store contains of each. */
async function list({ io, words, isJson, config, envFile }: EventOptions): Promise<number> {
  // Listing connects to the servers, so it loads the gateway.
  const { readSource, serverNamed } = await import('./options.ts')
  const { loggedTypes, offeredTypes, typeLines, typesView } = await import('./event-types.ts')
  const { settings } = readSource({ config, envFile }, io)
  const [name] = words
  const servers = name === undefined ? settings.upstreams : [serverNamed(name, settings)]
  const offered = await offeredTypes(settings, servers, io)
  // A store in memory exists only inside of the gateway.
  const logged =
    settings.store.kind === 'memory'
      ? undefined
      : await withStore(settings, io, (store) => loggedTypes(logsOf(store, name, namesOf(settings))))
  const text = isJson
    ? JSON.stringify({ servers: offered.map((each) => typesView(each, logged)) }, null, 2)
    : offered.flatMap((each) => typeLines(each, logged)).join('\n')
  print(text, io)
  return offered.some(({ problem }) => problem !== undefined) ? 1 : 0
}

/** `gatehouse events tail`: the events in the store. */
async function tail(options: EventOptions): Promise<number> {
  const settings = readStored(options, options.io)
  const [name] = options.words
  if (name === undefined && options.store !== undefined)
    throw new UsageError('with --store, give the name of a server')
  return withStore(settings, options.io, async (store) => {
    const logs = logsOf(store, name, settings.servers)
    // A server that was removed from the configuration can have events.
    const isKnown = options.store !== undefined || (await logs[0]?.log.hasBegun())
    if (name !== undefined && isKnown !== true && !settings.servers.includes(name))
      throw unknownServer(name, settings.servers)
    await printEntries(new Tail(logs), options)
    return 0
  })
}

async function printEntries(logs: Tail, options: EventOptions): Promise<void> {
  const { io, isFollowing, isJson } = options
  const stopping = new AbortController()
  const stop = (): void => stopping.abort()
  if (isFollowing) {
    // Such as `gatehouse events tail --follow | head`.
    io.stdout.once('error', stop)
    void io.untilStopped({ onHangUp: false }).then(stop)
  }
  let count = 0
  for await (const entry of isFollowing ? logs.follow(stopping.signal) : logs.entries()) {
    if (!isWanted(entry, options)) continue
    print(isJson ? entryView(entry) : entryLine(entry), io)
    count++
  }
  if (count === 0 && !isFollowing && !isJson) print('No events.', io)
}

function isWanted(entry: TailEntry, { type, since }: EventOptions): boolean {
  if (entry.kind === 'gap') return since === undefined || entry.at === undefined || entry.at >= since
  const { name, at } = entry.event
  return (since === undefined || at >= since) && (type === undefined || fits(type, name))
}

/** `gatehouse events subscriptions [drop ID]`: the subscriptions of all callers; ends one. */
async function subscriptions(options: EventOptions): Promise<number> {
  const [word, id] = options.words
  if (word !== undefined && word !== 'drop')
    throw new UsageError(
      `use events subscriptions, or events subscriptions drop ID${didYouMean(word, ['drop'])}`,
    )
  if (word === 'drop' && id === undefined) throw new UsageError('drop needs the id of a subscription')
  const settings = readStored(options, options.io)
  return withStore(settings, options.io, async (store) => {
    const records = new EventSubscriptions(store)
    const { principal } = options
    const all = (await records.all())
      .filter((record) => principal === undefined || record.principal.id === principal)
      .toSorted((one, other) => one.createdAt - other.createdAt)
    if (id !== undefined) return drop(subscriptionOf(all, id), { settings, records, options })
    // A server that was removed from the configuration can have subscriptions.
    const names = new Set([...all.map(({ upstream }) => upstream), ...settings.servers, undefined])
    const logs = [...names].map((name) => logOf(store, name))
    const listed = await withWaiting(all, { logs, hasAllLogs: options.store === undefined })
    if (options.isJson) printJson({ subscriptions: listed.map(subscriptionView) }, options.io)
    else print(subscriptionLines(listed).join('\n'), options.io)
    return 0
  })
}

interface DropContext {
  readonly settings: StoredSettings
  readonly records: EventSubscriptions
  readonly options: EventOptions
}

async function drop(
  record: SubscriptionRecord,
  { settings, records, options }: DropContext,
): Promise<number> {
  await withAudit(settings, options.io, async (audit) => {
    // It can end between the two.
    if (!(await records.unsubscribe(record.principal, record.id))) throw unknownSubscription(record.id)
    const { id: subscription, principal } = record
    audit?.ordered({ order: 'unsubscribe', by: userName(), subscription, caller: principal.id })
  })
  if (options.isJson) printJson({ dropped: record.id }, options.io)
  else print(droppedLine(record), options.io)
  return 0
}

/** `gatehouse events dead-letters [SUBSCRIPTION]`: the events that were given up. */
function deadLetters(options: EventOptions): Promise<number> {
  return withStore(readStored(options, options.io), options.io, async (store) => {
    const records = await new EventSubscriptions(store).all()
    const found = lettersOf(await new DeadLetters(store).list(), options.words[0])
    const listed = withSubscriptions(found, records)
    if (options.isJson) printJson({ dead_letters: listed.map(letterView) }, options.io)
    else print(letterLines(listed).join('\n'), options.io)
    return 0
  })
}

/** `gatehouse events redeliver SUBSCRIPTION [EVENT] | --all`: has events delivered again that were given up. */
async function redeliver(options: EventOptions): Promise<number> {
  const [id, event] = options.words
  if ((id === undefined) === !options.isAll)
    throw new UsageError('give a subscription, and one of its events if only that one is meant, or --all')
  const settings = readStored(options, options.io)
  return withStore(settings, options.io, async (store) => {
    const letters = new DeadLetters(store)
    const found = lettersOf(await letters.list(), id)
    const wanted = withSubscriptions(
      event === undefined ? found : found.filter((letter) => eventIdOf(letter) === event),
      await new EventSubscriptions(store).all(),
    )
    if (event !== undefined && wanted.length === 0)
      throw new Error(`no such dead letter: ${quoted(event)}. See gatehouse events dead-letters`)
    const requested: DeadLetter[] = []
    await withAudit(settings, options.io, async (audit) => {
      for (const { letter, subscription } of wanted) {
        if (!subscription || !(await letters.requestAgain(letter))) continue
        requested.push(letter)
        const { id: caller } = subscription.principal
        const order = { order: 'redeliver', by: userName(), caller } as const
        audit?.ordered({ ...order, subscription: letter.subscription, eventId: eventIdOf(letter) })
      }
    })
    const ended = wanted.length - requested.length
    if (options.isJson) printJson({ requested: requested.map(eventIdOf), not_requested: ended }, options.io)
    else print(redeliveryText(requested.length, ended), options.io)
    return ended > 0 ? 1 : 0
  })
}

function redeliveryText(count: number, ended: number): string {
  if (count === 0 && ended === 0) return 'No dead letters.'
  const lost = ended === 0 ? '' : ` ${ended} cannot be delivered: the subscription has ended.`
  return `Redelivery of ${count === 1 ? '1 event' : `${count} events`} requested: a running gateway begins within seconds.${lost}`
}

/** The dead letters of a subscription by its id or a prefix of it, which may have ended; those of all without an id. */
function lettersOf(letters: readonly DeadLetter[], id: string | undefined): readonly DeadLetter[] {
  if (id === undefined) return letters
  const ids = [...new Set(letters.map(({ subscription }) => subscription))]
  const found = idOf(ids, id)
  if (found === undefined)
    throw new Error(`no dead letters of ${quoted(id)}. See gatehouse events dead-letters`)
  return letters.filter(({ subscription }) => subscription === found)
}

/** The subscription of an id or a prefix of it. @throws Error */
function subscriptionOf(all: readonly SubscriptionRecord[], id: string): SubscriptionRecord {
  const found = idOf(
    all.map((record) => record.id),
    id,
  )
  const same = all.filter((record) => record.id === found)
  const [first] = same
  // Callers choose the ids of some subscriptions.
  if (same.length > 1)
    throw new Error(`${same.length} callers have a subscription ${quoted(id)}: add --principal`)
  if (!first) throw unknownSubscription(id)
  return first
}

/** The only id that begins with a text. @throws Error if there are several */
function idOf(ids: readonly string[], id: string): string | undefined {
  if (ids.includes(id)) return id
  const found = id.length < MIN_ID_LENGTH ? [] : ids.filter((each) => each.startsWith(id))
  if (found.length > 1)
    throw new Error(`${found.length} subscriptions begin with ${quoted(id)}: give more characters`)
  return found[0]
}

function unknownSubscription(id: string): Error {
  return new Error(`no such subscription: ${quoted(id)}. See gatehouse events subscriptions`)
}

function quoted(text: string): string {
  return escapeHidden(JSON.stringify(text))
}

/** The log of a server, or those of all and of the gateway itself. */
function logsOf(store: Store, name: string | undefined, servers: readonly string[]): readonly ReadLog[] {
  const names = name === undefined ? [...servers, undefined] : [name]
  return names.map((upstream) => logOf(store, upstream))
}

function namesOf({ upstreams }: Settings): readonly string[] {
  return upstreams.map(({ name }) => name)
}

/** A log that is only read. */
function logOf(store: Store, upstream: string | undefined): ReadLog {
  return { upstream, log: openEventLog(store, upstream, { ttl: 0, isShared: true }) }
}

async function withStore<Result>(
  settings: Pick<Settings, 'store'>,
  io: Io,
  act: (store: Store) => Promise<Result>,
): Promise<Result> {
  const store = await openSharedStore(settings, openLog('warn', io))
  try {
    return await act(store)
  } finally {
    await store.close()
  }
}

function withAudit(
  settings: StoredSettings,
  io: Io,
  act: (audit: Audit | undefined) => Promise<void>,
): Promise<void> {
  return audited(settings, openLog('warn', io), act)
}
